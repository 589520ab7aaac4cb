// The clock of a traced step. On a device a mark is an event on the current stream, read after the
// step; on the meta device, where nothing is computed, it is the time that an OpTimer has added up.
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
  /// `timer`: for the meta device; must outlive the clock.
  explicit TraceClock(c10::Device device, const OpTimer* timer = nullptr)
      : device_(device), timer_(timer) {}

  /// Marks the current moment and returns its number.
  size_t mark();
  /// Waits for the device. Call once, when the step is over.
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
