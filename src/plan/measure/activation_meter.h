// Measures the peak activation bytes of a real step exactly, and enforces a limit on them while it
// runs: Note [What an activation is].
#pragma once

#include "plan/measure/gradient_hooks.h"

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace reprise::planning {

/// Measures from its construction on. It hears of gradients through a hook on each parameter, so
/// only one meter at a time may watch a parameter. On the CPU, call track_cpu_memory() first. On a
/// GPU it counts the allocations of the thread that constructed it and of the backward calls made
/// there.
class REPRISE_API ActivationMeter {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  /// `parameters`: all parameters whose gradients the step accumulates. An allocation that would
  /// raise the activations above `limit` bytes throws c10::OutOfMemoryError. `listener`, if given,
  /// hears of gradients too.
  ActivationMeter(c10::Device device,
                  const std::vector<at::Tensor>& parameters,
                  int64_t limit = kNoLimit,
                  GradientHooks::Listener listener = {});
  ~ActivationMeter();
  ActivationMeter(const ActivationMeter&) = delete;
  ActivationMeter& operator=(const ActivationMeter&) = delete;

  /// The most activation bytes alive at once since the start.
  int64_t peak() const;
  /// Activation bytes alive now.
  int64_t now() const;

 private:
  class State;
  std::shared_ptr<State> state_;
  GradientHooks hooks_;
};

}  // namespace reprise::planning
