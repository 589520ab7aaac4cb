// A world whose processes are threads: collectives without sockets, for tests of what is built on
// them. Sums are in the order of ranks, so that they are the same in every run.
//
// Threads share what is global in a process (random generators, the memory counters): tests that
// need those apart start processes.
#pragma once

#include <reprise/dist/world.h>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::testing {

/// Where the threads of a world meet: each brings a value, and gets those of all.
template <class Value>
class Meeting {
 public:
  explicit Meeting(size_t size) : size_(size) {}

  std::vector<Value> meet(size_t rank, Value own, const std::string& what) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_over_ || !is_leaving_; });
    arrive(rank, std::move(own), what);
    changed_.wait(lock, [&] { return is_over_ || is_leaving_; });
    TORCH_CHECK(!is_over_, "[thread world] another thread gave up while this one was in ", what);
    auto all = values_;
    if (--inside_ == 0) {
      is_leaving_ = false;
      changed_.notify_all();
    }
    return all;
  }

  /// A thread ends by an exception: nobody must wait for it.
  void give_up() {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }

 private:
  void arrive(size_t rank, Value own, const std::string& what) {
    TORCH_CHECK(!is_over_, "[thread world] another thread gave up before ", what);
    if (inside_ == 0) {
      values_.assign(size_, Value());
      what_ = what;
    }
    TORCH_CHECK(what_ == what, "[thread world] one thread is in ", what_, ", another in ", what);
    values_[rank] = std::move(own);
    if (++inside_ == size_) {
      is_leaving_ = true;
      changed_.notify_all();
    }
  }

  size_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Value> values_;
  std::string what_;
  size_t inside_ = 0;
  bool is_leaving_ = false;
  bool is_over_ = false;
};

class ThreadWorld final : public World {
 public:
  struct Shared {
    explicit Shared(size_t size) : tensors(size), texts(size) {}
    Meeting<at::Tensor> tensors;
    Meeting<std::string> texts;
  };

  ThreadWorld(int64_t rank, int64_t size, Shared& shared)
      : rank_(rank), size_(size), shared_(shared) {}

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  int64_t local_rank() const override { return rank_; }

  PendingCollective start_all_reduce(const at::Tensor& value,
                                     const std::string& what) const override {
    return later(value, total(meet(value, "sum: " + what)));
  }

  PendingCollective start_all_gather(const at::Tensor& whole,
                                     const at::Tensor& part,
                                     const std::string& what) const override {
    return later(whole, at::cat(meet(part, "gather: " + what)));
  }

  PendingCollective start_reduce_scatter(const at::Tensor& part,
                                         const at::Tensor& whole,
                                         const std::string& what) const override {
    const auto sum = total(meet(whole, "reduce: " + what));
    return later(part, sum.narrow(0, rank_ * part.numel(), part.numel()));
  }

  std::vector<std::string> all_gather(const std::string& own,
                                      const std::string& what) const override {
    return shared_.texts.meet(static_cast<size_t>(rank_), own, what);
  }

 private:
  /// Until it is waited for, the target holds nothing that anybody could compute with.
  class Pending final : public Collective {
   public:
    Pending(at::Tensor target, at::Tensor result)
        : target_(std::move(target)), result_(std::move(result)) {}
    void wait() override {
      const at::NoGradGuard no_grad;
      target_.copy_(result_);
    }

   private:
    at::Tensor target_, result_;
  };

  static PendingCollective later(const at::Tensor& target, at::Tensor result) {
    const at::NoGradGuard no_grad;
    if (target.is_floating_point()) {
      target.fill_(std::numeric_limits<double>::quiet_NaN());
    }
    return std::make_unique<Pending>(target, std::move(result));
  }

  std::vector<at::Tensor> meet(const at::Tensor& own, const std::string& what) const {
    // A copy: the owner goes on, and writes, while others still read.
    return shared_.tensors.meet(static_cast<size_t>(rank_), own.detach().clone(), what);
  }

  static at::Tensor total(const std::vector<at::Tensor>& all) {
    auto sum = all.front().clone();
    for (size_t i = 1; i < all.size(); ++i) {
      sum.add_(all[i]);
    }
    return sum;
  }

  int64_t rank_, size_;
  Shared& shared_;
};

/// Runs `work` in so many threads, each with its place in one world. Rethrows the first error.
inline void run_in_world(int64_t size, const std::function<void(const World&)>& work) {
  ThreadWorld::Shared shared(static_cast<size_t>(size));
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(ThreadWorld(rank, size, shared));
      } catch (...) {
        {
          const std::scoped_lock lock(mutex);
          first = first ? first : std::current_exception();
        }
        shared.tensors.give_up();
        shared.texts.give_up();
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

}  // namespace reprise::testing
