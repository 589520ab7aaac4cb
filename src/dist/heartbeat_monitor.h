// Tracks which processes of a world are alive and what each is doing, so that a failed collective
// can name the process that caused it.
//
// Every process writes a heartbeat of a few bytes to the store twice a second. Nobody reads them
// until something fails. Then a process whose heartbeat does not change is dead or stopped, and the
// last collective that each began shows which one is behind.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace reprise::dist {

using StorePointer = c10::intrusive_ptr<c10d::Store>;
/// Opens a separate connection to the store: threads that share one wait for each other.
using OpenStore = std::function<StorePointer(std::chrono::milliseconds timeout)>;

class HeartbeatMonitor {
 public:
  /// `has_store`: this process hosts the store, which ends with it.
  HeartbeatMonitor(OpenStore open, int64_t rank, int64_t size, bool has_store);
  ~HeartbeatMonitor();
  HeartbeatMonitor(const HeartbeatMonitor&) = delete;
  HeartbeatMonitor& operator=(const HeartbeatMonitor&) = delete;

  /// Notes that this process begins a collective. Returns the collective's number.
  int64_t enter(const std::string& what);

  enum class Cause { Here, Elsewhere };
  /// Tells the others that this process ends by an error, which began here or in another process.
  /// Only the first report counts.
  void report(const std::string& message, Cause cause);
  bool has_reported() const;

  /// Why this process is stuck in that collective, as a sentence. Takes seconds.
  std::string find_cause(int64_t number, const std::string& what) const;

  /// Tells the others that this process is done.
  void leave();
  /// In the process that hosts the store: waits a little for the others to be done.
  void linger() const;

 private:
  void beat();
  void post() const;

  OpenStore open_;
  int64_t rank_, size_;
  bool has_store_;
  StorePointer store_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t beats_ = 0;
  int64_t entered_ = 0;
  std::string what_;
  bool has_reported_ = false;
  bool has_left_ = false;
  std::thread heart_;
};

}  // namespace reprise::dist
