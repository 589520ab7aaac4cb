#include "model/norm.h"

#include <ATen/ATen.h>

namespace reprise {

Norm::Norm(NormKind kind, int64_t size, double epsilon, const at::TensorOptions& options)
    : kind_(kind), epsilon_(epsilon) {
  weight = register_parameter("weight", at::empty({size}, options));
  if (kind == NormKind::Layer) {
    bias = register_parameter("bias", at::empty({size}, options));
  }
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  if (kind_ == NormKind::Layer) {
    return at::layer_norm(x, weight.sizes(), weight, bias, epsilon_);
  }
  const auto wide = x.to(at::kFloat);
  const auto scale = at::rsqrt(wide.square().mean({-1}, /*keepdim=*/true).add(epsilon_));
  // One rounding, at the end: rounding before the weight as well would double the error in
  // bfloat16.
  return (wide * scale * weight).to(x.scalar_type());
}

}  // namespace reprise
