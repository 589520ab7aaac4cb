#include "model/layers/mlp.h"

#include "model/module_tree.h"
#include "ops/activation.h"
#include "ops/gated.h"
#include "ops/linear/gated_linear.h"

#include <ATen/ATen.h>

namespace reprise {

Mlp::Mlp(torch::nn::Module& block,
         const ModelConfig& config,
         const Architecture& architecture,
         const at::TensorOptions& options)
    : layout_(architecture.mlp_layout), activation_(config.activation) {
  const auto shape = [&](int64_t in, int64_t out) {
    return Linear::Shape{in, out, config.mlp_bias, architecture.weight_layout};
  };
  const auto linear = [&](const std::string& path, int64_t in, int64_t out) {
    return adopt(block, path, std::make_shared<Linear>(shape(in, out), options));
  };
  const int64_t width = config.intermediate;
  if (layout_ == MlpLayout::Gated) {
    const auto both = adjacent_linears({width, width}, shape(config.hidden, width), options);
    gate_ = adopt(block, architecture.gate, both[0]);
    up_ = adopt(block, architecture.up, both[1]);
  } else {
    up_ = linear(
        architecture.up, config.hidden, layout_ == MlpLayout::GatedFused ? 2 * width : width);
  }
  down_ = linear(architecture.down, width, config.hidden);
}

// The layers that make gate and up, in a gated layout.
Linears Mlp::gates() const {
  return gate_ == nullptr ? Linears{up_.get()} : Linears{gate_.get(), up_.get()};
}

// Gate and up side by side; undefined if they cannot be computed as one.
at::Tensor Mlp::gate_and_up(const at::Tensor& x, const Pass& pass) const {
  const auto both = joined_forward(gates(), x, pass);
  if (!both.defined() && gate_ != nullptr && gate_->quantized() != nullptr) {
    // Quantised weights without a joined product. Side by side, the fused activation keeps one
    // copy.
    return at::cat({gate_->forward(x, pass), up_->forward(x, pass)}, -1);
  }
  return both.defined() || layout_ == MlpLayout::Gated ? both : up_->forward(x, pass);
}

at::Tensor Mlp::inner(const at::Tensor& x, const Pass& pass) const {
  if (layout_ == MlpLayout::Plain) {
    return ops::activate(activation_, up_->forward(x, pass));
  }
  const auto both = gate_and_up(x, pass);
  return both.defined()
             ? ops::gated(both, activation_)
             : ops::activate(activation_, gate_->forward(x, pass)) * up_->forward(x, pass);
}

at::Tensor Mlp::forward(const at::Tensor& x, const Pass& pass, const at::Tensor& residual) const {
  const bool is_gated = layout_ != MlpLayout::Plain;
  if (const auto down = is_gated ? down_->fused_values(x, pass) : std::nullopt) {
    const auto both = gate_and_up(x, pass);
    if (both.defined()) {
      // Under autocast the residual stays wide.
      const bool is_wider = residual.defined() && both.scalar_type() != residual.scalar_type();
      const auto sum = ops::gated_linear(both,
                                         activation_,
                                         down->weight,
                                         down->bias,
                                         is_wider ? at::Tensor() : residual,
                                         joined_branches({down_.get()}, both, pass));
      return is_wider ? residual + sum : sum;
    }
  }
  return down_->forward(inner(x, pass), pass, {.residual = residual});
}

}  // namespace reprise
