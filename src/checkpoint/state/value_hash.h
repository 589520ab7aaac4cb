// A hash of a tensor's content, for DeterminismCheck::Values.
#pragma once

#include <ATen/core/Tensor.h>

namespace reprise::detail {

/// A 64-bit hash of the tensor's bits and their positions, as a 0-dim int64 tensor on its device.
/// Uses only integer sums, which do not depend on the order. Temporary memory is bounded.
at::Tensor value_hash(const at::Tensor& tensor);

}  // namespace reprise::detail
