// The gated part of a feed-forward layer: activation(gate) * up, as one operator
// (reprise::gated) that keeps nothing but its input.
#pragma once

#include <reprise/activation.h>
#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// gate_up (..., 2 width), the gate first -> (..., width). Computed in float32, rounded once.
REPRISE_API at::Tensor gated(const at::Tensor& gate_up, Activation activation);

}  // namespace reprise::ops
