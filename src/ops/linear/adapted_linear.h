// Linear layers of one input with LoRA adapters as one operator (reprise::adapted_linear): a
// product over adjacent weights, plus the residual if there is one, and the adapters onto their
// columns of it.
#pragma once

#include "ops/linear/adapters.h"
#include "ops/linear/weight.h"

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// residual + x weight^T + bias + what the adapters add: x (..., in), weight (out, in), bias (out)
/// or undefined, residual (..., out) or undefined; at least one adapter. Saved for backward: the
/// weight, the adapters, and x if one of them is trained (Note [What adapters keep]).
REPRISE_API at::Tensor adapted_linear(const at::Tensor& x,
                                      const Weight& weight,
                                      const at::Tensor& bias,
                                      const at::Tensor& residual,
                                      const Adapters& adapters);

}  // namespace reprise::ops
