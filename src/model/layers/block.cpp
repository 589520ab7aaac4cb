#include "model/layers/block.h"

#include "model/module_tree.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace reprise {

namespace {

std::shared_ptr<Norm> make_norm(torch::nn::Module& block,
                                const std::string& path,
                                const ModelConfig& config,
                                const at::TensorOptions& options) {
  return adopt(block,
               path,
               std::make_shared<Norm>(config.norm, config.hidden, config.norm_epsilon, options));
}

}  // namespace

Block::Block(const ModelConfig& config,
             const Architecture& architecture,
             int64_t layer,
             const at::TensorOptions& options)
    : is_parallel_(config.parallel_residual),
      dropout_(config.residual_dropout),
      attention_norm_(make_norm(*this, architecture.attention_norm, config, options)),
      mlp_norm_(make_norm(*this, architecture.mlp_norm, config, options)),
      attention_(*this, config, architecture, layer, options),
      mlp_(*this, config, architecture, options) {}

at::Tensor Block::forward(const at::Tensor& x,
                          const AttentionContext& context,
                          const Pass& pass,
                          KvCache* cache) const {
  const bool drops = dropout_ > 0 && pass.training;
  const auto dropped = [&](const at::Tensor& branch) {
    return drops ? at::dropout(branch, dropout_, true) : branch;
  };
  if (is_parallel_) {
    const auto attended =
        dropped(attention_.forward(attention_norm_->forward(x), context, pass, cache));
    return dropped(mlp_.forward(mlp_norm_->forward(x), pass)) + attended + x;
  }
  const ops::Fork first = attention_norm_->fork(x);
  const auto attended =
      drops ? first.residual + dropped(attention_.forward(first.normed, context, pass, cache))
            : attention_.forward(first.normed, context, pass, cache, first.residual);
  const ops::Fork second = mlp_norm_->fork(attended);
  return drops ? second.residual + dropped(mlp_.forward(second.normed, pass))
               : mlp_.forward(second.normed, pass, second.residual);
}

void Block::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  move_weights([&](const at::Tensor& x) { return x.to(device, dtype, non_blocking); });
  Module::to(device, dtype, non_blocking);
}

void Block::to(torch::Dtype dtype, bool non_blocking) {
  move_weights([&](const at::Tensor& x) { return x.to(dtype, non_blocking); });
  Module::to(dtype, non_blocking);
}

void Block::to(torch::Device device, bool non_blocking) {
  move_weights([&](const at::Tensor& x) { return x.to(x.options().device(device), non_blocking); });
  Module::to(device, non_blocking);
}

void Block::move_weights(const Move& move) const {
  attention_.move_weights(move);
  mlp_.move_weights(move);
}

bool Block::is_trained(AdapterUse adapters) const {
  const auto parameters = named_parameters();
  return std::any_of(parameters.begin(), parameters.end(), [&](const auto& item) {
    const bool takes_part =
        adapters == AdapterUse::Trained || item.key().find(".lora.") == std::string::npos;
    return takes_part && item.value().requires_grad();
  });
}

}  // namespace reprise
