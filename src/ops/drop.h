// Dropout without a mask (reprise::drop_into_).
//
// Note [Dropout without a mask]
// Whether a value is kept follows from a seed and the value's position (drop_bits.h), so backward
// finds it again: neither a mask nor a dropped copy lives from forward to backward, only the seed.
// The seed is a tensor on the device, drawn by random_(): a checkpointed region sees that draw as
// any other and repeats it in the recompute, and neither the host nor a recorded step waits.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise::ops {

/// A new seed from the default generator of the device of `beside`: int64, one element.
REPRISE_API at::Tensor draw_seed(const at::Tensor& beside);

/// out = x, or out += x if `adds`, where a value is kept, which has probability 1 - p. The others
/// are zero, or as they were. Not scaled by 1 / (1 - p). Computed in the wider type and rounded
/// once. `out` and x are contiguous and have one shape; their first value is number `first` of
/// those that the seed decides. Autograd does not see it.
REPRISE_API void drop_into(at::Tensor& out,
                           const at::Tensor& x,
                           const at::Tensor& seed,
                           double p,
                           int64_t first,
                           bool adds);

}  // namespace reprise::ops
