// The most activation bytes of a real step, exactly: Note [What an activation is].
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::planning {

/// Measures from its construction on. Hears of gradients through a hook on each parameter, so one
/// meter at a time may watch a parameter. For the CPU call track_cpu_memory() first.
class REPRISE_API ActivationMeter {
 public:
  /// `parameters`: all whose gradients the step accumulates.
  ActivationMeter(c10::Device device, const std::vector<at::Tensor>& parameters);
  ~ActivationMeter();
  ActivationMeter(const ActivationMeter&) = delete;
  ActivationMeter& operator=(const ActivationMeter&) = delete;

  /// The most activation bytes alive at once since the start.
  int64_t peak();
  /// Activation bytes alive now.
  int64_t now() const;

 private:
  class State;
  class Hook;
  std::shared_ptr<State> state_;
  std::vector<at::Tensor> parameters_;
};

}  // namespace reprise::planning
