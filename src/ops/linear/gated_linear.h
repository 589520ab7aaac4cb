// The end of a gated MLP as one operator (reprise::gated_linear): activation(gate) * up through the
// down projection and its LoRA adapter if there is one, plus the residual if there is one.
//
// Note [What a gated layer keeps]
// It saves gate_up for backward, not activation(gate) * up, which the gradients of the weight and
// the adapter need: backward reads gate_up anyway, so recomputing the other costs one write. That
// saves a third of the memory, and a checkpointed region can stop its recompute at gate_up, before
// the activation and the down projection.
#pragma once

#include "ops/linear/adapters.h"
#include "ops/linear/weight.h"

#include <reprise/export.h>
#include <reprise/ops/activation.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// residual + gated(gate_up) weight^T + bias + what the adapters add: gate_up (..., 2 width),
/// weight (out, width), bias (out) or undefined, residual (..., out) or undefined. Unless the graph
/// is retained, backward writes gate_up's gradient over gate_up, so nothing else may use gate_up.
REPRISE_API at::Tensor gated_linear(const at::Tensor& gate_up,
                                    Activation activation,
                                    const Weight& weight,
                                    const at::Tensor& bias,
                                    const at::Tensor& residual,
                                    const Adapters& adapters = {});

}  // namespace reprise::ops
