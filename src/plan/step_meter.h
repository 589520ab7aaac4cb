// Measures the peak activation bytes of one step of the calling thread, whatever others allocate:
// Note [What an activation is], Note [Whose bytes they are].
//
// Unlike an ActivationMeter it needs no list of parameters, and several threads may measure at
// once. It measures to the end of the last node of backward, so that an optimizer's update does not
// count.
#pragma once

#include "memory/allocation_watch.h"
#include "plan/trace/node_listener.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

namespace reprise::planning {

class StepMeter {
 public:
  enum class Gradients : uint8_t { SetAside, Counted };
  static constexpr int64_t kNoLimit = memory::AllocationWatch::kNoLimit;
  /// An allocation that would exceed `limit` throws c10::OutOfMemoryError.
  StepMeter(c10::Device device, Gradients gradients, int64_t limit = kNoLimit);
  ~StepMeter();
  StepMeter(const StepMeter&) = delete;
  StepMeter& operator=(const StepMeter&) = delete;

  /// The most activation bytes alive at once so far.
  int64_t peak() const;

  /// Whether the bytes of `device` are counted in this process.
  static bool can_measure(c10::Device device);

 private:
  class State;
  std::shared_ptr<State> state_;
  NodeListenerGuard nodes_;
};

}  // namespace reprise::planning
