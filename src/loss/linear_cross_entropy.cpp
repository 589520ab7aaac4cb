// Cross entropy and its gradients in one pass over the logits: the sum's gradient is known without
// what comes from above, which is one factor.
#include "loss/counting_tokens.h"
#include "loss/head_chunks.h"
#include "loss/head_gradients.h"

#include <reprise/autocast.h>
#include <reprise/loss/head.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <optional>

namespace reprise {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One number for each token that counts, so that sums do not depend on the chunks.
struct TokenSums {
  at::Tensor losses, entropies, hits;
};

// Fills the chunk's part of `sums` and returns the gradient of its logits, which are overwritten.
at::Tensor visit_chunk(const TokenSums& sums,
                       int64_t start,
                       at::Tensor logits,
                       const at::Tensor& targets,
                       TokenWeighting weighting,
                       ChunkBuffer& scratch) {
  const auto part = [&](const at::Tensor& all) { return all.narrow(0, start, logits.size(0)); };
  const auto at_targets = targets.unsqueeze(1);
  part(sums.hits).copy_(logits.argmax(1) == targets);
  const auto logp = at::_log_softmax_out(logits, logits, 1, /*half_to_float=*/false);
  const auto target_logp = logp.gather(1, at_targets);
  auto slopes = scratch.like(logp);
  at::exp_out(slopes, logp);
  part(sums.entropies).copy_(logp.mul_(slopes).sum(1).neg_());

  // The gradient of -w log p(target), w being constant, is w (p - onehot).
  auto weights = at::ones_like(target_logp);
  if (weighting == TokenWeighting::Probability) {
    at::exp_out(weights, target_logp);
    slopes.mul_(weights);
  }
  part(sums.losses).copy_((target_logp * weights).squeeze(1).neg_());
  return slopes.scatter_add_(1, at_targets, weights.neg());
}

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  // The sums of losses, entropies and hits.
  static variable_list forward(AutogradContext* context,
                               const at::Tensor& rows,
                               const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias,
                               const at::Tensor& targets,
                               const HeadPlan& plan,
                               TokenWeighting weighting,
                               const HeadNeeds& needs) {
    const AutocastScope no_autocast(rows.device().type(), at::kFloat, /*enabled=*/false);
    const auto room = [&] {
      return at::empty({rows.size(0)}, rows.options().dtype(plan.statistics).requires_grad(false));
    };
    const TokenSums sums{.losses = room(), .entropies = room(), .hits = room()};
    HeadGradients gradients(plan, needs, rows, weight);
    ChunkLogits logits(plan, weight, bias.value_or(at::Tensor()));
    ChunkBuffer scratch;
    for_each_chunk(rows.size(0), plan, [&](int64_t start, int64_t count) {
      const auto chunk = rows.narrow(0, start, count).to(plan.product);
      const auto slopes = visit_chunk(
          sums, start, logits.of(chunk), targets.narrow(0, start, count), weighting, scratch);
      gradients.add(start, chunk, slopes, logits);
    });
    context->saved_data["weight_type"] = static_cast<int64_t>(weight.scalar_type());
    context->saved_data["bias_type"] =
        static_cast<int64_t>(bias ? bias->scalar_type() : weight.scalar_type());
    context->save_for_backward({gradients.hidden, gradients.weight, gradients.bias});
    const variable_list results{sums.losses.sum(), sums.entropies.sum(), sums.hits.sum()};
    context->mark_non_differentiable({results[1], results[2]});
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstreams) {
    check_differentiated_once();
    const auto saved = context->get_saved_variables();
    const auto type = [&](const char* name) {
      return static_cast<at::ScalarType>(context->saved_data.at(name).toInt());
    };
    const auto& upstream = upstreams[0];
    return {
        saved[0].defined() ? as_gradient(saved[0], saved[0].scalar_type(), upstream) : at::Tensor(),
        as_gradient(saved[1], type("weight_type"), upstream),
        as_gradient(saved[2], type("bias_type"), upstream),
        {},
        {},
        {},
        {}};
  }
};

}  // namespace

CrossEntropy linear_cross_entropy(const at::Tensor& hidden,
                                  const LinearHead& head,
                                  const at::Tensor& targets,
                                  TokenWeighting weighting,
                                  const HeadChunks& chunks) {
  check_head(hidden, head, targets);
  const CountingTokens tokens(targets, head.weight.size(0));
  // Inside the function grad mode is off, so it is asked here.
  const auto is_needed = [](const at::Tensor& tensor) {
    return at::GradMode::is_enabled() && tensor.defined() && tensor.requires_grad();
  };
  const HeadNeeds needs{
      .hidden = is_needed(hidden), .weight = is_needed(head.weight), .bias = is_needed(head.bias)};
  const auto sums = LinearCrossEntropy::apply(tokens.rows_of(hidden),
                                              head.weight,
                                              optional_bias(head),
                                              tokens.targets(),
                                              plan_head(hidden, head, chunks, /*temperature=*/1.0),
                                              weighting,
                                              needs);
  return {.sum = sums[0], .entropy = sums[1], .correct = sums[2], .tokens = tokens.count()};
}

}  // namespace reprise
