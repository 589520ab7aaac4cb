// A projection that is added to the residual stream, as one operator (reprise::linear_add): on a
// GPU the product's epilogue adds, so the sum costs no pass over memory.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// stream + x weight^T + bias: x (..., in), weight (out, in), bias (out) or undefined, stream
/// (..., out). Kept for backward: the weight, and x if the weight is trained.
REPRISE_API at::Tensor linear_add(const at::Tensor& x,
                                  const at::Tensor& weight,
                                  const at::Tensor& bias,
                                  const at::Tensor& stream);

}  // namespace reprise::ops
