// Writes through Tensor::data(), which autograd's version counters do not see.
//
// Note [Writes through data()]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// data() returns a tensor over the same storage with a version counter of its own; LibTorch's
// optimizers write parameters this way. Autograd does not notice, and uses the new values; a
// recompute would use them too, for other activations. So the counters that data() hands out are
// remembered by storage, and the sum of their versions tells whether anybody wrote through them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>

namespace reprise::detail {

/// `data` shares the storage of `tensor`, with a version counter of its own.
void note_data(const at::Tensor& tensor, const at::Tensor& data);

/// The sum of the versions of such a storage's tensors; 0 for other storages.
uint64_t data_writes(const c10::StorageImpl* storage);

}  // namespace reprise::detail
