// Moments of a traced step. On a device they are events on the current stream, read after the step.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <chrono>
#include <cstddef>
#include <vector>

namespace reprise::planning {

class TraceClock {
 public:
  explicit TraceClock(c10::Device device) : device_(device) {}

  /// The number of the moment that is now.
  size_t mark();
  /// The step is over: waits for the device, once.
  void finish() const;
  /// After finish().
  double ms_between(size_t from, size_t to) const;

 private:
  c10::Device device_;
  std::vector<std::chrono::steady_clock::time_point> moments_;  // CPU
  std::vector<c10::Event> events_;                              // any other
};

}  // namespace reprise::planning
