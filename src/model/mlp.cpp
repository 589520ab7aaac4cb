#include "model/mlp.h"

#include "model/module_tree.h"

#include <ATen/ATen.h>

namespace reprise {

namespace {

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::Silu:
      return at::silu(x);
    case Activation::Gelu:
      return at::gelu(x);
    case Activation::GeluTanh:
      return at::gelu(x, "tanh");
    case Activation::Relu:
      break;
  }
  return at::relu(x);
}

}  // namespace

Mlp::Mlp(torch::nn::Module& block,
         const ModelConfig& config,
         const Architecture& architecture,
         const at::TensorOptions& options)
    : layout_(architecture.mlp_layout), activation_(config.activation) {
  const auto linear = [&](const std::string& path, int64_t in, int64_t out) {
    return adopt(block,
                 path,
                 std::make_shared<Linear>(
                     Linear::Shape{in, out, config.mlp_bias, architecture.weight_layout}, options));
  };
  const int64_t width = config.intermediate;
  if (layout_ == MlpLayout::Gated) {
    gate_ = linear(architecture.gate, config.hidden, width);
  }
  up_ =
      linear(architecture.up, config.hidden, layout_ == MlpLayout::GatedFused ? 2 * width : width);
  down_ = linear(architecture.down, width, config.hidden);
}

at::Tensor Mlp::forward(const at::Tensor& x, const Pass& pass) const {
  at::Tensor inner;
  if (layout_ == MlpLayout::Gated) {
    inner = activate(activation_, gate_->forward(x, pass)) * up_->forward(x, pass);
  } else if (layout_ == MlpLayout::GatedFused) {
    const auto halves = up_->forward(x, pass).chunk(2, -1);
    inner = activate(activation_, halves[0]) * halves[1];
  } else {
    inner = activate(activation_, up_->forward(x, pass));
  }
  return down_->forward(inner, pass);
}

}  // namespace reprise
