// The sum of the tensors of all processes, in the order of their ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace reprise::dist {

/// See Note [Sums in the order of ranks]. All tensors are flat and of one length; `out` may be one
/// of the terms. The terms may be overwritten.
void ordered_sum(const at::Tensor& out, const std::vector<at::Tensor>& terms);

}  // namespace reprise::dist
