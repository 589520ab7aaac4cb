// A world of processes that are connected: CPU tensors go by an Exchange, in a thread of its own,
// those on a GPU by NCCL.
//
// A collective that fails breaks the world: the others are no longer where this process is. Every
// later one then fails with the same message.
#pragma once

#include "dist/exchange.h"
#include "dist/groups.h"
#include "dist/watch.h"

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

class JoinedWorld final : public World {
 public:
  /// `store` is the one that others connect to, where it is in this process. `gpu` may be null.
  JoinedWorld(const WorldPlace& place,
              StorePointer store,
              std::unique_ptr<Watch> watch,
              Group gloo,
              Group gpu);
  ~JoinedWorld() override;

  int64_t rank() const override { return place_.rank; }
  int64_t size() const override { return place_.size; }
  int64_t local_rank() const override { return place_.local_rank; }

  PendingCollective start_sum(const at::Tensor& value, const std::string& what) const override;
  PendingCollective start_gather(const at::Tensor& whole,
                                 const at::Tensor& part,
                                 const std::string& what) const override;
  PendingCollective start_reduce(const at::Tensor& part,
                                 const at::Tensor& whole,
                                 const std::string& what) const override;
  std::vector<std::string> gather(const std::string& own, const std::string& what) const override;

  void report(const std::string& message) const { watch_->report(message, Watch::Cause::Here); }

 private:
  struct Job;
  class Pending;
  using Work = std::function<void(Exchange&, int tag)>;

  PendingCollective start(const char* kind, const std::string& what, Work work) const;
  c10d::Backend& gpu(const char* kind, const std::string& what) const;
  void work_off();
  void run(Job& job);

  WorldPlace place_;
  StorePointer store_;
  std::unique_ptr<Watch> watch_;
  Group gloo_, gpu_;
  std::unique_ptr<Exchange> exchange_;
  int exceptions_;  ///< that were under way when this world began
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable std::deque<std::shared_ptr<Job>> jobs_;
  std::string failure_;  ///< of the worker's alone
  bool is_leaving_ = false;
  std::thread worker_;
};

}  // namespace reprise::dist
