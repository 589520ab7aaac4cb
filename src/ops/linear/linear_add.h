// A linear layer plus a residual as one operator (reprise::linear_add). On a GPU the sum is part of
// the matmul's epilogue and costs no pass over memory.
#pragma once

#include "ops/linear/weight.h"

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// residual + x weight^T + bias: x (..., in), weight (out, in), bias (out) or undefined, residual
/// (..., out). Saved for backward: the weight, and x if the weight is trained.
REPRISE_API at::Tensor linear_add(const at::Tensor& x,
                                  const Weight& weight,
                                  const at::Tensor& bias,
                                  const at::Tensor& residual);

}  // namespace reprise::ops
