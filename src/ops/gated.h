// The gated activation of an MLP, activation(gate) * up, as one operator (reprise::gated) that
// saves only its input for backward.
#pragma once

#include <reprise/export.h>
#include <reprise/ops/activation.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// gate_up (..., 2 width), the gate first -> (..., width). Computed in float32 and rounded once.
REPRISE_API at::Tensor gated(const at::Tensor& gate_up, Activation activation);

}  // namespace reprise::ops
