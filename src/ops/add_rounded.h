// x + added in the wider of their types, rounded once to the type of x, in one pass over memory
// (reprise::add_rounded). Adds a float32 LoRA branch to a 16-bit output.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// x + added in the type of x; both have one shape. Saves nothing for backward.
REPRISE_API at::Tensor add_rounded(const at::Tensor& x, const at::Tensor& added);

/// out = add_rounded(x, added). `out` has the type of x and may be x. Autograd does not see it.
REPRISE_API void add_rounded_into(at::Tensor& out, const at::Tensor& x, const at::Tensor& added);

}  // namespace reprise::ops
