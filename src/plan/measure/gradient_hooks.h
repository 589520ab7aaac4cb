// Tells when the gradient of a parameter is in place and takes memory from then on: Note [What an
// activation is].
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace reprise::planning {

/// LibTorch has one such hook per tensor, so only one listener at a time may watch a parameter.
class REPRISE_API GradientHooks {
 public:
  /// Gets the bytes of a new gradient, on the autograd thread that made it. Not called for a
  /// parameter that had a gradient: accumulating into it takes no new memory.
  using Listener = std::function<void(int64_t bytes)>;

  /// `parameters`: all whose gradients the step accumulates, or that announce_gradient() is called
  /// for; tied ones may be listed twice.
  GradientHooks(c10::Device device,
                const std::vector<at::Tensor>& parameters,
                const Listener& listener);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  std::vector<at::Tensor> parameters_;
};

/// Tells the listener of `leaf`, if there is one, that its gradient is in place: for a gradient
/// that is summed over processes instead of accumulated by autograd. Once for each storage.
REPRISE_API void announce_gradient(const at::Tensor& leaf);

/// Those of the tensors that no listener watches yet and that accumulate gradients.
REPRISE_API std::vector<at::Tensor> unwatched(const std::vector<at::Tensor>& parameters);

}  // namespace reprise::planning
