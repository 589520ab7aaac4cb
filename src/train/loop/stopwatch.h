// Adds the duration of a scope, in milliseconds, to a total.
#pragma once

#include <chrono>

namespace reprise {

class Stopwatch {
 public:
  explicit Stopwatch(double& total_ms) : total_ms_(total_ms) {}
  ~Stopwatch() { total_ms_ += milliseconds(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(Clock::now() - start_).count();
  }

  using Clock = std::chrono::steady_clock;
  double& total_ms_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace reprise
