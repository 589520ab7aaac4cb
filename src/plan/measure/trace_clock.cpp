#include "plan/measure/trace_clock.h"

#include "plan/measure/op_timer.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace reprise::planning {

size_t TraceClock::mark() {
  if (timer_ != nullptr) {
    predicted_ms_.push_back(timer_->ms());
    return predicted_ms_.size() - 1;
  }
  if (device_.is_cpu()) {
    moments_.push_back(std::chrono::steady_clock::now());
    return moments_.size() - 1;
  }
  auto& event = events_.emplace_back(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return events_.size() - 1;
}

void TraceClock::finish() const {
  // All events, because they may be on several streams.
  for (const auto& event : events_) {
    event.synchronize();
  }
}

double TraceClock::ms_between(size_t from, size_t to) const {
  if (timer_ != nullptr) {
    return predicted_ms_[to] - predicted_ms_[from];
  }
  if (device_.is_cpu()) {
    return std::chrono::duration<double, std::milli>(moments_[to] - moments_[from]).count();
  }
  return events_[from].elapsedTime(events_[to]);
}

}  // namespace reprise::planning
