// Rotary embedding of queries or keys, as one operator (reprise::rope). Where nothing comes between
// the projection and the rotation, qkv_rope does both.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise::ops {

struct Rotation {
  int64_t dims = 0;          ///< leading dimensions of a head that are rotated
  bool interleaved = false;  ///< pairs (2i, 2i + 1); otherwise (i, i + dims / 2)
  bool is_inverse = false;   ///< rotates by -angle
};

/// x (B, heads, T, head_dim) rotated by float32 tables (B or 1, 1, T, dims / 2), in the type of x.
/// Saved for backward: the tables. Differentiable any number of times: its gradient is the inverse
/// rotation.
REPRISE_API at::Tensor rope(const at::Tensor& x,
                            const at::Tensor& cos,
                            const at::Tensor& sin,
                            const Rotation& rotation);

}  // namespace reprise::ops
