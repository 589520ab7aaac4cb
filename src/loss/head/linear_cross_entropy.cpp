// Cross entropy and its gradients in one pass over the logits. The gradient can be computed in
// forward, because the upstream gradient of a sum is one factor.
#include "loss/head/linear_cross_entropy.h"

#include "loss/head/head_gradients.h"
#include "loss/head/valid_tokens.h"
#include "ops/cross_entropy.h"
#include "ops/node.h"

#include <reprise/autocast.h>
#include "memory/planned_device.h"

#include <ATen/ATen.h>

#include <optional>

namespace reprise {

TokenSums TokenSums::allocate(const at::Tensor& rows, const HeadPlan& plan) {
  const auto room = [&] {
    return at::empty({rows.size(0)}, rows.options().dtype(plan.statistics).requires_grad(false));
  };
  return {.losses = room(), .entropies = room(), .hits = room()};
}

TokenSums TokenSums::chunk(int64_t start, int64_t count) const {
  const auto part = [&](const at::Tensor& all) { return all.narrow(0, start, count); };
  return {.losses = part(losses), .entropies = part(entropies), .hits = part(hits)};
}

void TokenSums::copy(const ops::RowLosses& rows) const {
  losses.copy_(rows.losses);
  entropies.copy_(rows.entropies);
  hits.copy_(rows.hits);
}

at::Tensor cross_entropy_of(const TokenSums& chunk,
                            at::Tensor logits,
                            const at::Tensor& targets,
                            TokenWeighting weighting,
                            at::Tensor grad_logits,
                            at::Tensor products) {
  const auto at_targets = targets.unsqueeze(1);
  chunk.hits.copy_(logits.argmax(1) == targets);
  const auto logp = at::_log_softmax_out(logits, logits, 1, /*half_to_float=*/false);
  const auto target_logp = logp.gather(1, at_targets);
  at::exp_out(grad_logits, logp);
  at::mul_out(products, logp, grad_logits);
  chunk.entropies.copy_(products.sum(1).neg_());

  // The gradient of -w log p(target) for constant w is w (p - onehot).
  auto weights = at::ones_like(target_logp);
  if (weighting == TokenWeighting::Probability) {
    at::exp_out(weights, target_logp);
    grad_logits.mul_(weights);
  }
  chunk.losses.copy_((target_logp * weights).squeeze(1).neg_());
  return grad_logits.scatter_add_(1, at_targets, weights.neg());
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static constexpr size_t kArguments = 7;

  // Returns the sums of losses, entropies and hits.
  static variable_list forward(AutogradContext* context,
                               const at::Tensor& rows,
                               const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias,
                               const at::Tensor& targets,
                               const HeadPlan& plan,
                               TokenWeighting weighting,
                               const HeadNeeds& needs) {
    const AutocastScope no_autocast(
        memory::kernel_type(rows.device()), at::kFloat, /*enabled=*/false);
    const auto sums = TokenSums::allocate(rows, plan);
    HeadGradients gradients(plan, needs, rows, weight);
    ChunkLogits logits(plan, weight, bias.value_or(at::Tensor()));
    ChunkBuffer scratch;
    for_each_chunk(rows.size(0), plan, [&](int64_t start, int64_t count) {
      const auto chunk = rows.narrow(0, start, count).to(plan.product);
      if (plan.is_narrow) {
        auto narrow = logits.narrow_of(chunk);
        sums.chunk(start, count)
            .copy(ops::cross_entropy_(
                narrow, targets.narrow(0, start, count), weighting == TokenWeighting::Probability));
        gradients.add(start, chunk, narrow, logits);
        return;
      }
      const auto made = logits.of(chunk);
      const auto grad_logits = cross_entropy_of(sums.chunk(start, count),
                                                made,
                                                targets.narrow(0, start, count),
                                                weighting,
                                                /*grad_logits=*/scratch.like(made),
                                                /*products=*/made);
      gradients.add(start, chunk, grad_logits, logits);
    });
    keep_gradients(*context, gradients, weight, bias);
    const variable_list results{sums.losses.sum(), sums.entropies.sum(), sums.hits.sum()};
    context->mark_non_differentiable({results[1], results[2]});
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstreams) {
    ops::check_differentiated_once("head");
    return kept_gradients(*context, upstreams[0], kArguments);
  }
};

}  // namespace

CrossEntropy linear_cross_entropy(const at::Tensor& hidden,
                                  const LinearHead& head,
                                  const Targets& targets,
                                  TokenWeighting weighting,
                                  const HeadChunks& chunks) {
  check_head(hidden, head, targets.tokens);
  const ValidTokens tokens(targets, head.weight.size(0));
  const auto sums = LinearCrossEntropy::apply(
      tokens.rows_of(hidden),
      head.weight,
      optional_bias(head),
      tokens.targets(),
      has_fused_kernels(head) ? plan_narrow_head(hidden, head, chunks)
                              : plan_head(hidden, head, chunks, /*temperature=*/1.0),
      weighting,
      needs_of(hidden, head));
  return {.sum = sums[0], .entropy = sums[1], .correct = sums[2], .tokens = tokens.count()};
}

}  // namespace reprise
