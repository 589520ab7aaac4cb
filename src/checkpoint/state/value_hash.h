// A hash of a tensor's content, for DeterminismCheck::Values.
#pragma once

#include <ATen/core/Tensor.h>

namespace reprise::detail {

/// A 64-bit hash of the tensor's bits and their positions, as a 0-dim int64 tensor on its device.
/// Uses only integer sums, which do not depend on the order. Takes no temporary memory on the CPU,
/// and a bounded amount elsewhere. Names of dimensions do not count. Of a sparse tensor it hashes
/// indices and values, of a nested one its components. Throws for a tensor whose content cannot be
/// read (quantized, meta, mkldnn).
at::Tensor value_hash(const at::Tensor& tensor);

/// The hash of a tensor that autograd is saving on this thread; undefined for one whose content
/// means nothing: see Note [Workspaces are not compared]. Call it for every tensor that is saved,
/// in order.
at::Tensor saved_value_hash(const at::Tensor& tensor);

}  // namespace reprise::detail
