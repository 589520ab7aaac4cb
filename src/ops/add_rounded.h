// A sum in the wider of two types, rounded once to the first, in one pass (reprise::add_rounded).
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// x + added in the type of x, both of one shape. Nothing is kept for backward.
REPRISE_API at::Tensor add_rounded(const at::Tensor& x, const at::Tensor& added);

/// out = that, out being of the type of x and perhaps x itself. Below autograd.
REPRISE_API void add_rounded_into(at::Tensor& out, const at::Tensor& x, const at::Tensor& added);

}  // namespace reprise::ops
