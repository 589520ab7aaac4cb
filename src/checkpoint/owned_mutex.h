// A recursive mutex for short sections that are hardly ever contended.
#pragma once

#include "checkpoint/hot_thread_local.h"

#include <reprise/detail/host_language.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace reprise::detail {

/// Like std::recursive_mutex, at half its cost: each saved tensor that backward asks for locks one.
class OwnedMutex {
 public:
  OwnedMutex() = default;
  OwnedMutex(const OwnedMutex&) = delete;
  OwnedMutex& operator=(const OwnedMutex&) = delete;

  void lock() {
    const void* const me = &this_thread;
    if (owner_.load(std::memory_order_relaxed) != me) {
      State expected = State::Free;
      if (!state_.compare_exchange_strong(expected, State::Held, std::memory_order_acquire))
          [[unlikely]] {
        wait();
      }
      owner_.store(me, std::memory_order_relaxed);
    }
    ++depth_;
  }

  void unlock() {
    if (--depth_ == 0) {
      owner_.store(nullptr, std::memory_order_relaxed);
      if (state_.exchange(State::Free, std::memory_order_release) == State::Awaited) [[unlikely]] {
        state_.notify_one();
      }
    }
  }

 private:
  enum class State : int { Free, Held, Awaited };

  /// The owner may need the global lock of the language that hosts this process, so it is given up
  /// meanwhile.
  void wait() {
    const auto* host = host_language();
    void* const paused = host == nullptr ? nullptr : host->pause();
    while (state_.exchange(State::Awaited, std::memory_order_acquire) != State::Free) {
      state_.wait(State::Awaited, std::memory_order_relaxed);
    }
    if (paused != nullptr) {
      host->resume(paused);
    }
  }

  std::atomic<State> state_{State::Free};
  std::atomic<const void*> owner_{nullptr};
  size_t depth_ = 0;                                            // of the owner
  inline static REPRISE_HOT_THREAD_LOCAL char this_thread = 0;  // its address identifies a thread
};

}  // namespace reprise::detail
