// A linear layer as one operator (reprise::linear), whose gradients are our own matrix products.
#pragma once

#include "ops/linear/weight.h"

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// x weight^T + bias in the type of x: x (..., in), weight (out, in), bias (out) or undefined.
/// Saved for backward: the weight, and x if the weight is trained. Under autocast the weight may be
/// wider than x: Note [Weights wider than what they multiply].
REPRISE_API at::Tensor linear(const at::Tensor& x, const Weight& weight, const at::Tensor& bias);

}  // namespace reprise::ops
