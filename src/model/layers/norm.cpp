#include "model/layers/norm.h"

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
  return kind_ == NormKind::Layer ? at::layer_norm(x, weight.sizes(), weight, bias, epsilon_)
                                  : ops::rms_norm(x, weight, epsilon_);
}

ops::Fork Norm::fork(const at::Tensor& x) const {
  return kind_ == NormKind::Layer ? ops::Fork{x, forward(x)}
                                  : ops::fork_rms_norm(x, weight, epsilon_);
}

}  // namespace reprise
