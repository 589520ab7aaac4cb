// What Ctrl-C means, by how often and how quickly it comes. The first one asks the run to stop;
// one within a second of it (a bouncing key, an impatient hand) only repeats the answer; a later
// one ends the process. Lock-free, because signal handlers use it.
#pragma once

#include <atomic>
#include <cstdint>

namespace reprise::app {

class StopPresses {
 public:
  enum class Answer : uint8_t { Stop, Warn, End };
  static constexpr int64_t kImpatience = 1'000'000'000;  ///< nanoseconds

  /// `now` is a time in nanoseconds, at least 0, that never goes back.
  Answer press(int64_t now) noexcept {
    int64_t first = kNone;
    if (first_.compare_exchange_strong(first, now)) {
      return Answer::Stop;
    }
    return now - first < kImpatience ? Answer::Warn : Answer::End;
  }
  bool is_stop_requested() const noexcept { return first_.load() != kNone; }

 private:
  static constexpr int64_t kNone = -1;
  static_assert(std::atomic<int64_t>::is_always_lock_free);
  std::atomic<int64_t> first_{kNone};
};

}  // namespace reprise::app
