// Moments of a traced step. On a device they are events on the current stream, read after the step;
// where nothing is computed (the meta device) they are what an OpTimer adds up.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <chrono>
#include <cstddef>
#include <vector>

namespace reprise::planning {

class OpTimer;

class TraceClock {
 public:
  /// `timer`: for the meta device, and outlives the clock.
  explicit TraceClock(c10::Device device, const OpTimer* timer = nullptr)
      : device_(device), timer_(timer) {}

  /// The number of the moment that is now.
  size_t mark();
  /// The step is over: waits for the device, once.
  void finish() const;
  /// After finish().
  double ms_between(size_t from, size_t to) const;

 private:
  c10::Device device_;
  const OpTimer* timer_;
  std::vector<double> predicted_ms_;                            // meta
  std::vector<std::chrono::steady_clock::time_point> moments_;  // CPU
  std::vector<c10::Event> events_;                              // any other
};

}  // namespace reprise::planning
