// LoRA adapters beside layers whose product is computed elsewhere, as one operator
// (reprise::adapted_sum).
#pragma once

#include "ops/linear/adapters.h"

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// product + what the adapters add for x, in the type of the product: product (..., out), x
/// (..., in). Saved for backward: the adapters, and x if one of them is trained (Note [What
/// adapters keep]).
REPRISE_API at::Tensor adapted_sum(const at::Tensor& product,
                                   const at::Tensor& x,
                                   const Adapters& adapters);

}  // namespace reprise::ops
