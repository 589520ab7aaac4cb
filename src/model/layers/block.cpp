#include "model/layers/block.h"

#include "model/module_tree.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace reprise {

namespace {

double attention_dropout(const ModelConfig& config) {
  return config.drops_sum ? 0 : config.attention_residual_dropout.value_or(config.residual_dropout);
}

}  // namespace

at::Tensor Block::Around::dropped(const at::Tensor& added, const Pass& pass) const {
  return drops(pass) ? at::dropout(added, dropout, true) : added;
}

Block::Around Block::make_around(const ModelConfig& config,
                                 const std::string& before,
                                 const std::string& after,
                                 double dropout,
                                 const at::TensorOptions& options) {
  const auto norm = [&](const std::string& path) {
    return path.empty()
               ? nullptr
               : adopt(*this, path, std::make_shared<Norm>(config, config.hidden, options));
  };
  const auto first = norm(before), second = norm(after);
  return {.before = config.is_post_norm ? nullptr : first,
          .after = second,
          .of_sum = config.is_post_norm ? first : nullptr,
          .dropout = dropout};
}

Block::Block(const ModelConfig& config,
             const Architecture& architecture,
             int64_t layer,
             const at::TensorOptions& options)
    : is_parallel_(config.parallel_residual),
      drops_sum_(config.drops_sum),
      residual_is_normed_(config.residual_is_normed),
      residual_scale_(config.residual_scale),
      around_attention_(make_around(config,
                                    architecture.attention_norm,
                                    architecture.attention_output_norm,
                                    attention_dropout(config),
                                    options)),
      around_mlp_(make_around(config,
                              architecture.mlp_norm,
                              architecture.mlp_output_norm,
                              config.residual_dropout,
                              options)),
      attention_(*this, config, architecture, layer, options),
      mlp_(*this, config, architecture, options) {}

// x + branch(x), and the norm of the sum.
template <class Branch>
at::Tensor Block::add_branch(const Around& around,
                             const at::Tensor& x,
                             const Pass& pass,
                             const Branch& branch) const {
  ops::Fork fork = around.before == nullptr ? ops::Fork{x, x} : around.before->fork(x);
  if (residual_is_normed_) {
    fork.residual = fork.normed;
  }
  const auto sum = sum_of(around, fork, pass, branch);
  return around.of_sum == nullptr ? sum : around.of_sum->forward(sum);
}

// Where nothing comes between, the branch adds the residual itself, in its last product: `branch`
// is called with its input and the residual, which is undefined otherwise.
template <class Branch>
at::Tensor Block::sum_of(const Around& around,
                         const ops::Fork& fork,
                         const Pass& pass,
                         const Branch& branch) const {
  if (around.after == nullptr && residual_scale_ == 1 && !around.drops(pass)) {
    return branch(fork.normed, fork.residual);
  }
  auto added = branch(fork.normed, at::Tensor());
  if (around.after != nullptr) {
    added = around.after->forward(added);
  }
  added = around.dropped(added, pass);
  return residual_scale_ == 1 ? fork.residual + added
                              : at::add(fork.residual, added, residual_scale_);
}

at::Tensor Block::forward_parallel(const at::Tensor& x,
                                   const AttentionContext& context,
                                   const Pass& pass,
                                   KvCache* cache) const {
  const ops::Fork read = around_attention_.before->fork(x);
  const bool shares_norm = around_mlp_.before == nullptr;
  if (shares_norm && !around_attention_.drops(pass) && !around_mlp_.drops(pass)) {
    const auto sum = attention_.forward(read.normed, context, pass, cache, read.residual);
    return mlp_.forward(read.normed, pass, sum);
  }
  const auto attended =
      around_attention_.dropped(attention_.forward(read.normed, context, pass, cache), pass);
  const auto added = mlp_.forward(shares_norm ? read.normed : around_mlp_.before->forward(x), pass);
  return drops_sum_ ? around_mlp_.dropped(added + attended, pass) + read.residual
                    : around_mlp_.dropped(added, pass) + attended + read.residual;
}

at::Tensor Block::forward(const at::Tensor& x,
                          const AttentionContext& context,
                          const Pass& pass,
                          KvCache* cache) const {
  if (is_parallel_) {
    return forward_parallel(x, context, pass, cache);
  }
  const auto attended = add_branch(
      around_attention_, x, pass, [&](const at::Tensor& input, const at::Tensor& residual) {
        return attention_.forward(input, context, pass, cache, residual);
      });
  return add_branch(
      around_mlp_, attended, pass, [&](const at::Tensor& input, const at::Tensor& residual) {
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
