#include "model/layers/block.h"

#include "model/module_tree.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace reprise {

Block::Norms Block::make_norms(const ModelConfig& config,
                               const std::string& before,
                               const std::string& after,
                               const at::TensorOptions& options) {
  const auto norm = [&](const std::string& path) {
    return path.empty()
               ? nullptr
               : adopt(*this, path, std::make_shared<Norm>(config, config.hidden, options));
  };
  return {norm(before), norm(after)};
}

Block::Block(const ModelConfig& config,
             const Architecture& architecture,
             int64_t layer,
             const at::TensorOptions& options)
    : is_parallel_(config.parallel_residual),
      dropout_(config.residual_dropout),
      residual_scale_(config.residual_scale),
      attention_norms_(make_norms(
          config, architecture.attention_norm, architecture.attention_output_norm, options)),
      mlp_norms_(make_norms(config, architecture.mlp_norm, architecture.mlp_output_norm, options)),
      attention_(*this, config, architecture, layer, options),
      mlp_(*this, config, architecture, options) {}

// x + branch(x). Where nothing comes between, the branch adds the residual itself, in its last
// product: `branch` is called with its input and the residual, which is undefined otherwise.
template <class Branch>
at::Tensor Block::add_branch(const Norms& norms,
                             const at::Tensor& x,
                             const Pass& pass,
                             const Branch& branch) const {
  const ops::Fork fork = norms.before == nullptr ? ops::Fork{x, x} : norms.before->fork(x);
  if (norms.after == nullptr && residual_scale_ == 1 && !drops(pass)) {
    return branch(fork.normed, fork.residual);
  }
  auto added = branch(fork.normed, at::Tensor());
  if (norms.after != nullptr) {
    added = norms.after->forward(added);
  }
  if (drops(pass)) {
    added = at::dropout(added, dropout_, true);
  }
  return residual_scale_ == 1 ? fork.residual + added
                              : at::add(fork.residual, added, residual_scale_);
}

at::Tensor Block::forward_parallel(const at::Tensor& x,
                                   const AttentionContext& context,
                                   const Pass& pass,
                                   KvCache* cache) const {
  const auto dropped = [&](const at::Tensor& branch) {
    return drops(pass) ? at::dropout(branch, dropout_, true) : branch;
  };
  if (mlp_norms_.before == nullptr) {
    const auto read = attention_norms_.before->fork(x);
    if (!drops(pass)) {
      const auto sum = attention_.forward(read.normed, context, pass, cache, read.residual);
      return mlp_.forward(read.normed, pass, sum);
    }
    const auto attended = dropped(attention_.forward(read.normed, context, pass, cache));
    return dropped(mlp_.forward(read.normed, pass)) + attended + read.residual;
  }
  const auto attended =
      dropped(attention_.forward(attention_norms_.before->forward(x), context, pass, cache));
  return dropped(mlp_.forward(mlp_norms_.before->forward(x), pass)) + attended + x;
}

at::Tensor Block::forward(const at::Tensor& x,
                          const AttentionContext& context,
                          const Pass& pass,
                          KvCache* cache) const {
  if (is_parallel_) {
    return forward_parallel(x, context, pass, cache);
  }
  const auto attended = add_branch(
      attention_norms_, x, pass, [&](const at::Tensor& input, const at::Tensor& residual) {
        return attention_.forward(input, context, pass, cache, residual);
      });
  return add_branch(
      mlp_norms_, attended, pass, [&](const at::Tensor& input, const at::Tensor& residual) {
        return mlp_.forward(input, pass, residual);
      });
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
