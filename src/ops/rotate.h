// Rotary embedding by ATen's operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise::ops {

/// The leading `turned` dimensions of x (B, heads, T, head_dim), turned by the tables (B or 1, 1,
/// T, turned / 2), which are float32, as is what is computed with them: narrow types are rounded
/// once. With -sin the turn is undone. Differentiable.
at::Tensor rotate(const at::Tensor& x,
                  const at::Tensor& cos,
                  const at::Tensor& sin,
                  int64_t turned,
                  bool interleaved);

}  // namespace reprise::ops
