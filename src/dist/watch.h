// Who of a world is alive, and what each is doing: so that a collective that fails names the
// process that is to blame.
//
// Every process posts a few bytes in the store twice a second. Nobody reads them until something
// fails; then whose do not change is dead or stopped, and who is behind shows in what it began
// last.
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
/// A connection to the store of its own: those that share one wait for each other.
using OpenStore = std::function<StorePointer(std::chrono::milliseconds patience)>;

class Watch {
 public:
  /// `has_store`: the store is in this process, and goes with it.
  Watch(OpenStore open, int64_t rank, int64_t size, bool has_store);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// This process begins a collective. Its number.
  int64_t enter(const std::string& what);

  enum class Cause { Here, Elsewhere };
  /// This process ends by an error, whose cause is here or in another process. The first counts.
  void report(const std::string& message, Cause cause);
  bool has_reported() const;

  /// Who is to blame that this process is stuck in that collective, as a sentence. Takes seconds.
  std::string find_cause(int64_t number, const std::string& what) const;

  /// This process is done.
  void leave();
  /// Where this process has the store: waits a little, until the others are done as well.
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
