// A projection by products of our own (ops/product.h), as one operator (reprise::linear).
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// x weight^T + bias: x (..., in), weight (out, in), bias (out) or undefined. Kept for backward:
/// the weight, and x if the weight is trained.
REPRISE_API at::Tensor linear(const at::Tensor& x,
                              const at::Tensor& weight,
                              const at::Tensor& bias);

}  // namespace reprise::ops
