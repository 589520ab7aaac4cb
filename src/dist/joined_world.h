// A world of connected processes. CPU tensors are exchanged by an Exchange in a worker thread, GPU
// tensors by NCCL.
//
// A failed collective breaks the world, because the processes are no longer in step. Every later
// collective then fails with the same message.
#pragma once

#include "dist/exchange.h"
#include "dist/groups.h"
#include "dist/heartbeat_monitor.h"
#include "dist/rehearsal.h"

#include <reprise/dist/connect.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace reprise::dist {

class JoinedWorld final : public World, public Rehearsable {
 public:
  /// Keeps `store` alive: the others may be connected to it. `gpu` may be null.
  JoinedWorld(const Rendezvous& rendezvous,
              StorePointer store,
              std::unique_ptr<HeartbeatMonitor> monitor,
              Group gloo,
              Group gpu);
  ~JoinedWorld() override;

  int64_t rank() const override { return rendezvous_.rank; }
  int64_t size() const override { return rendezvous_.size; }
  int64_t local_rank() const override { return rendezvous_.local_rank; }

  PendingCollective start_all_reduce(const at::Tensor& value,
                                     const std::string& what) const override;
  PendingCollective start_all_gather(const at::Tensor& whole,
                                     const at::Tensor& part,
                                     const std::string& what) const override;
  PendingCollective start_reduce_scatter(const at::Tensor& part,
                                         const at::Tensor& whole,
                                         const std::string& what) const override;
  std::vector<std::string> all_gather(const std::string& own,
                                      const std::string& what) const override;

  void report(const std::string& message) const {
    monitor_->report(message, HeartbeatMonitor::Cause::Here);
  }

 private:
  struct Job;
  class Pending;
  using Work = std::function<void(Exchange&, int tag)>;

  PendingCollective start(const char* kind, const std::string& what, Work work) const;
  c10d::Backend& gpu(const char* kind, const std::string& what) const;
  void run_jobs();
  void run(Job& job);

  Rendezvous rendezvous_;
  StorePointer store_;
  std::unique_ptr<HeartbeatMonitor> monitor_;
  Group gloo_, gpu_;
  std::unique_ptr<Exchange> exchange_;
  int exceptions_;  ///< std::uncaught_exceptions() when this world began
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::deque<std::shared_ptr<Job>> jobs_;
  std::string failure_;  ///< used by the worker only
  bool is_leaving_ = false;
  std::thread worker_;
};

}  // namespace reprise::dist
