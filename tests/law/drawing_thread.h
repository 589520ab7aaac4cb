// Threads that draw random numbers while regions run.
#pragma once

#include <torch/torch.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

namespace reprise::testing {

/// Draws from the default generator on a thread of its own, without a pause, until destroyed.
class DrawingThread {
 public:
  DrawingThread() {
    thread_ = std::thread([this] {
      while (!is_stopped_) {
        torch::rand({3});
        torch::randn({5});
        if (!started_.try_wait()) {
          started_.count_down();
        }
      }
    });
    started_.wait();
  }
  ~DrawingThread() {
    is_stopped_ = true;
    thread_.join();
  }
  DrawingThread(const DrawingThread&) = delete;
  DrawingThread& operator=(const DrawingThread&) = delete;

 private:
  std::latch started_{1};
  std::atomic<bool> is_stopped_{false};
  std::thread thread_;
};

/// Runs `fn(i)` for i below `count` on as many threads, all at once. Rethrows the first error.
inline void in_parallel(size_t count, const std::function<void(size_t)>& fn) {
  std::barrier start(static_cast<std::ptrdiff_t>(count));
  std::vector<std::exception_ptr> failures(count);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      try {
        fn(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const auto& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
}

/// Runs `fn` on another thread and waits for it.
inline void elsewhere(const std::function<void()>& fn) {
  in_parallel(1, [&fn](size_t) { fn(); });
}

/// Two threads meet here. One that waits alone goes on after a while, so that a program whose
/// threads take turns ends too.
class Meeting {
 public:
  void arrive() {
    std::unique_lock lock(mutex_);
    if (++arrived_ == 2) {
      changed_.notify_all();
      return;
    }
    changed_.wait_for(lock, std::chrono::seconds(2), [this] { return arrived_ >= 2; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
};

}  // namespace reprise::testing
