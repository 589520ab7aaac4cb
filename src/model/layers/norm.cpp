#include "model/layers/norm.h"

#include <ATen/ATen.h>

#include <string>

namespace reprise {

Norm::Norm(const ModelConfig& config, int64_t size, const at::TensorOptions& options)
    : kind_(config.norm),
      size_(size),
      epsilon_(config.norm_epsilon),
      adds_one_(config.norm_adds_one) {
  if (kind_ == NormKind::Rms || config.norm_has_weight) {
    weight = register_parameter("weight", at::empty({size}, options));
  }
  if (kind_ == NormKind::Layer && config.norm_has_bias) {
    bias = register_parameter("bias", at::empty({size}, options));
  }
}

at::Tensor Norm::layer_norm(const at::Tensor& x) const {
  return at::layer_norm(x, {size_}, adds_one_ ? weight + 1 : weight, bias, epsilon_);
}

at::Tensor Norm::forward(const at::Tensor& x) const {
  return kind_ == NormKind::Layer ? layer_norm(x) : ops::rms_norm(x, rms_weight(), epsilon_);
}

ops::Fork Norm::fork(const at::Tensor& x) const {
  return kind_ == NormKind::Layer ? ops::Fork{x, layer_norm(x)}
                                  : ops::fork_rms_norm(x, rms_weight(), epsilon_);
}

HeadNorms::HeadNorms(ModelConfig config,
                     int64_t heads,
                     int64_t size,
                     const at::TensorOptions& options) {
  config.norm_has_bias = false;
  for (int64_t head = 0; head < heads; ++head) {
    norms_.push_back(
        register_module(std::to_string(head), std::make_shared<Norm>(config, size, options)));
  }
}

at::Tensor HeadNorms::forward(const at::Tensor& x) const {
  std::vector<at::Tensor> heads = x.unbind(-2);
  for (size_t head = 0; head < heads.size(); ++head) {
    heads[head] = norms_[head]->forward(heads[head]);
  }
  return at::stack(heads, -2);
}

}  // namespace reprise
