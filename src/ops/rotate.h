// Rotary embedding by ATen's operators: the reference of rope and qkv_rope.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise::ops {

/// x (B, heads, T, head_dim) with its leading `rotary_dims` dimensions rotated by float32 tables
/// (B or 1, 1, T, rotary_dims / 2). Computed in float32 and rounded once. With -sin it is the
/// inverse rotation. Differentiable.
at::Tensor rotate(const at::Tensor& x,
                  const at::Tensor& cos,
                  const at::Tensor& sin,
                  int64_t rotary_dims,
                  bool interleaved);

}  // namespace reprise::ops
