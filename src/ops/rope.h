// Rotary embedding of heads that are made already, as one operator (reprise::rope). Where nothing
// stands between the projection and the turn, qkv_rope does both.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise::ops {

struct Turn {
  int64_t dims = 0;          ///< leading dimensions of a head that turn
  bool interleaved = false;  ///< dimension 2i turns with 2i + 1; otherwise i with i + dims / 2
  bool back = false;         ///< by -angle
};

/// x (B, heads, T, head_dim) turned by float32 tables (B or 1, 1, T, dims / 2), in the type of x.
/// Kept for backward: the tables. Differentiable as often as one likes: its gradient is the turn
/// back.
REPRISE_API at::Tensor rope(const at::Tensor& x,
                            const at::Tensor& cos,
                            const at::Tensor& sin,
                            const Turn& turn);

}  // namespace reprise::ops
