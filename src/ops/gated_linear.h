// The end of a gated feed-forward layer: activation(gate) * up, projected and added to the residual
// stream if there is one, as one operator (reprise::gated_linear).
//
// Note [What a gated layer keeps]
// gate_up, and not activation(gate) * up, which the projection's weight gradient needs: backward
// reads gate_up anyway, so making it again there costs one write. Less is kept by a third, and a
// region that is computed again ends with gate_up, before the activation and its projection.
#pragma once

#include <reprise/activation.h>
#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// stream + gated(gate_up) weight^T + bias: gate_up (..., 2 width), weight (out, width), bias (out)
/// or undefined, stream (..., out) or undefined. Unless the graph is retained, backward writes
/// gate_up's gradient over gate_up: it must have no other use.
REPRISE_API at::Tensor gated_linear(const at::Tensor& gate_up,
                                    Activation activation,
                                    const at::Tensor& weight,
                                    const at::Tensor& bias,
                                    const at::Tensor& stream);

}  // namespace reprise::ops
