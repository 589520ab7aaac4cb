#include "model/layers/norm.h"

#include <ATen/ATen.h>

namespace reprise {

Norm::Norm(const ModelConfig& config, int64_t size, const at::TensorOptions& options)
    : kind_(config.norm), epsilon_(config.norm_epsilon), adds_one_(config.norm_adds_one) {
  weight = register_parameter("weight", at::empty({size}, options));
  if (kind_ == NormKind::Layer && config.norm_has_bias) {
    bias = register_parameter("bias", at::empty({size}, options));
  }
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  return kind_ == NormKind::Layer
             ? at::layer_norm(x, weight.sizes(), adds_one_ ? weight + 1 : weight, bias, epsilon_)
             : ops::rms_norm(x, rms_weight(), epsilon_);
}

ops::Fork Norm::fork(const at::Tensor& x) const {
  return kind_ == NormKind::Layer ? ops::Fork{x, forward(x)}
                                  : ops::fork_rms_norm(x, rms_weight(), epsilon_);
}

}  // namespace reprise
