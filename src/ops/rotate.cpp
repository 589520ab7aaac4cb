#include "ops/rotate.h"

#include <ATen/ATen.h>

namespace reprise::ops {

at::Tensor rotate(const at::Tensor& x,
                  const at::Tensor& cos,
                  const at::Tensor& sin,
                  int64_t rotary_dims,
                  bool interleaved) {
  const auto head = x.narrow(-1, 0, rotary_dims);
  at::Tensor result;
  if (interleaved) {
    const auto pairs = head.unflatten(-1, {rotary_dims / 2, 2});
    const auto even = pairs.select(-1, 0), odd = pairs.select(-1, 1);
    result = at::stack({even * cos - odd * sin, odd * cos + even * sin}, -1).flatten(-2);
  } else {
    const auto halves = head.chunk(2, -1);
    result = at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
  }
  result = result.to(x.scalar_type());
  if (rotary_dims == x.size(-1)) {
    return result;
  }
  return at::cat({result, x.narrow(-1, rotary_dims, x.size(-1) - rotary_dims)}, -1);
}

}  // namespace reprise::ops
