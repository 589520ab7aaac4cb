// Log-probabilities of targets and other statistics of the token distributions. Forward saves only
// a few numbers per token; backward recomputes the logits of each chunk.
#include "loss/head/head_chunks.h"
#include "loss/head/head_gradients.h"
#include "loss/head/valid_tokens.h"
#include "ops/node.h"
#include "ops/token_sums.h"

#include <reprise/autocast.h>
#include <reprise/loss/head.h>
#include "memory/planned_device.h"

#include <ATen/ATen.h>

#include <optional>
#include <utility>

namespace reprise {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One number per valid token. log_normalizer is logsumexp(logits).
struct Statistics {
  TokenValues values;
  at::Tensor log_normalizer;
};

Statistics allocate(const at::Tensor& rows, const HeadPlan& plan, const TokenRequests& requests) {
  const auto room = [&](bool is_wanted) {
    return is_wanted ? at::empty({rows.size(0)},
                                 rows.options().dtype(plan.statistics).requires_grad(false))
                     : at::Tensor();
  };
  return {.values = {.logprobs = room(true),
                     .entropy = room(requests.entropy),
                     .log_sum_p2 = room(requests.log_sum_p2),
                     .mean_logit = room(requests.mean_logit),
                     .top1 = room(requests.top1)},
          .log_normalizer = room(requests.entropy || plan.is_narrow)};
}

// Fills `out` with a fused kernel that reads the logits of a chunk once.
void fill_narrow(const Statistics& out,
                 int64_t start,
                 const at::Tensor& logits,
                 const at::Tensor& targets,
                 const HeadPlan& plan) {
  const auto& values = out.values;
  const auto sums =
      ops::token_sums(logits, targets, 1 / plan.temperature, values.entropy.defined());
  const auto put = [&](const at::Tensor& all, const at::Tensor& chunk) {
    if (all.defined()) {
      all.narrow(0, start, logits.size(0)).copy_(chunk);
    }
  };
  put(values.logprobs, sums.logprobs);
  put(out.log_normalizer, sums.log_sums);
  put(values.entropy, sums.entropies);
  put(values.top1, sums.hits);
}

// Fills the defined tensors of `out` from the logits of a chunk, which are overwritten.
void fill(const Statistics& out,
          int64_t start,
          at::Tensor logits,
          const at::Tensor& targets,
          ChunkBuffer& scratch) {
  const auto put = [&](const at::Tensor& all, const at::Tensor& chunk) {
    all.narrow(0, start, logits.size(0)).copy_(chunk);
  };
  const auto at_targets = targets.unsqueeze(1);
  const auto& values = out.values;
  if (values.top1.defined()) {
    put(values.top1, logits.argmax(1) == targets);
  }
  if (values.mean_logit.defined()) {
    put(values.mean_logit, logits.mean(1));
  }
  const auto target_logits = logits.gather(1, at_targets).squeeze(1);
  const auto logp = at::_log_softmax_out(logits, logits, 1, /*half_to_float=*/false);
  const auto target_logp = logp.gather(1, at_targets).squeeze(1);
  put(values.logprobs, target_logp);
  if (!values.entropy.defined() && !values.log_sum_p2.defined()) {
    return;
  }
  auto p = scratch.like(logp);
  at::exp_out(p, logp);
  if (values.log_sum_p2.defined()) {
    put(values.log_sum_p2, at::linalg_vector_norm(p, 2, at::IntArrayRef{1}).log_().mul_(2));
  }
  if (values.entropy.defined()) {
    put(values.entropy, p.mul_(logp).sum(1).neg_());
    put(out.log_normalizer, target_logits - target_logp);
  }
}

// Upstream gradients of a chunk, divided by the temperature; undefined: zero.
struct Upstream {
  at::Tensor logprobs, entropy;

  Upstream chunk(int64_t start, int64_t count) const {
    const auto part = [&](const at::Tensor& all) {
      return all.defined() ? all.narrow(0, start, count).unsqueeze(1) : all;
    };
    return {part(logprobs), part(entropy)};
  }
};

// With upstream gradients a of log p and b of the entropy H, the gradient of the logits is
//   a (onehot - p) - b p (log p + H) = p (-(a + b H) - b log p) + a onehot.
at::Tensor slopes_with_entropy(at::Tensor logits,
                               const Upstream& upstream,
                               const at::Tensor& log_normalizer,
                               const at::Tensor& entropy,
                               ChunkBuffer& scratch) {
  const auto logp = logits.sub_(log_normalizer.unsqueeze(1));
  auto p = scratch.like(logp);
  at::exp_out(p, logp);
  auto constant = upstream.entropy * entropy.unsqueeze(1);
  if (upstream.logprobs.defined()) {
    constant.add_(upstream.logprobs);
  }
  at::addcmul_out(logits, constant.neg_(), logp, upstream.entropy, -1);
  return logits.mul_(p);
}

struct TokenLogprobs : torch::autograd::Function<TokenLogprobs> {
  static constexpr size_t kArguments = 6;

  // Returns the requested statistics, in the order of TokenValues.
  static variable_list forward(AutogradContext* context,
                               const at::Tensor& rows,
                               const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias,
                               const at::Tensor& targets,
                               const HeadPlan& plan,
                               const TokenRequests& requests) {
    const AutocastScope no_autocast(
        memory::kernel_type(rows.device()), at::kFloat, /*enabled=*/false);
    const auto out = allocate(rows, plan, requests);
    ChunkLogits logits(plan, weight, bias.value_or(at::Tensor()));
    ChunkBuffer scratch;
    for_each_chunk(rows.size(0), plan, [&](int64_t start, int64_t count) {
      const auto chunk = rows.narrow(0, start, count).to(plan.product);
      const auto chunk_targets = targets.narrow(0, start, count);
      if (plan.is_narrow) {
        fill_narrow(out, start, logits.narrow_of(chunk), chunk_targets, plan);
      } else {
        fill(out, start, logits.of(chunk), chunk_targets, scratch);
      }
    });

    const auto& values = out.values;
    keep_plan(*context, plan);
    context->set_materialize_grads(false);
    context->save_for_backward(
        {rows, weight, bias.value_or(at::Tensor()), targets, out.log_normalizer, values.entropy});
    variable_list results{values.logprobs};
    variable_list constants;
    for (const auto& constant : {values.log_sum_p2, values.mean_logit, values.top1}) {
      if (constant.defined()) {
        constants.push_back(constant);
      }
    }
    context->mark_non_differentiable(constants);
    if (values.entropy.defined()) {
      results.push_back(values.entropy);
    }
    results.insert(results.end(), constants.begin(), constants.end());
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstreams) {
    ops::check_differentiated_once("head");
    const auto saved = context->get_saved_variables();
    const auto &rows = saved[0], &weight = saved[1], &bias = saved[2], &targets = saved[3];
    const auto &log_normalizer = saved[4], &entropy = saved[5];
    const HeadPlan plan = kept_plan(*context);
    const AutocastScope no_autocast(
        memory::kernel_type(rows.device()), at::kFloat, /*enabled=*/false);
    const auto scaled = [&](const at::Tensor& upstream) {
      return upstream.defined() ? upstream / plan.temperature : upstream;
    };
    const Upstream upstream{scaled(upstreams[0]),
                            entropy.defined() ? scaled(upstreams[1]) : at::Tensor()};
    if (!upstream.logprobs.defined() && !upstream.entropy.defined()) {
      return variable_list(kArguments);
    }

    HeadGradients gradients(plan, needs_of(*context, bias.defined()), rows, weight);
    ChunkLogits logits(plan, weight, bias);
    ChunkBuffer scratch;
    for_each_chunk(rows.size(0), plan, [&](int64_t start, int64_t count) {
      const auto chunk = rows.narrow(0, start, count).to(plan.product);
      if (plan.is_narrow) {
        auto grad_logits = logits.narrow_of(chunk);
        const auto part = [&](const at::Tensor& all) {
          return all.defined() ? all.narrow(0, start, count) : all;
        };
        ops::token_slopes_(
            grad_logits,
            part(targets),
            part(log_normalizer),
            part(entropy),
            {.logprobs = part(upstream.logprobs), .entropies = part(upstream.entropy)},
            1 / plan.temperature);
        gradients.add(start, chunk, grad_logits, logits);
        return;
      }
      const auto part = upstream.chunk(start, count);
      auto grad_logits = logits.of(chunk);
      if (part.entropy.defined()) {
        grad_logits = slopes_with_entropy(grad_logits,
                                          part,
                                          log_normalizer.narrow(0, start, count),
                                          entropy.narrow(0, start, count),
                                          scratch);
      } else {
        at::_softmax_out(grad_logits, grad_logits, 1, /*half_to_float=*/false);
        grad_logits.mul_(part.logprobs.neg());
      }
      if (part.logprobs.defined()) {
        grad_logits.scatter_add_(1, targets.narrow(0, start, count).unsqueeze(1), part.logprobs);
      }
      gradients.add(start, chunk, grad_logits, logits);
    });
    return {gradients.hidden,
            as_gradient(gradients.weight, weight.scalar_type()),
            bias.defined() ? as_gradient(gradients.bias, bias.scalar_type()) : at::Tensor(),
            {},
            {},
            {}};
  }
};

}  // namespace

TokenValues token_logprobs(const at::Tensor& hidden,
                           const LinearHead& head,
                           const Targets& targets,
                           const TokenRequests& requests) {
  check_head(hidden, head, targets.tokens);
  const ValidTokens tokens(targets, head.weight.size(0));
  // The fused kernels compute neither log_sum_p2 nor mean_logit.
  const bool has_kernel = has_fused_kernels(head) && !requests.log_sum_p2 && !requests.mean_logit;
  const HeadPlan plan = has_kernel
                            ? plan_narrow_head(hidden, head, requests.chunks, requests.temperature)
                            : plan_head(hidden, head, requests.chunks, requests.temperature);
  const auto results = TokenLogprobs::apply(
      tokens.rows_of(hidden), head.weight, optional_bias(head), tokens.targets(), plan, requests);

  auto next = results.begin();
  const auto take = [&](bool is_wanted) {
    return is_wanted ? tokens.scatter(*next++) : at::Tensor();
  };
  TokenValues values;
  values.logprobs = take(true);
  values.entropy = take(requests.entropy);
  values.log_sum_p2 = take(requests.log_sum_p2);
  values.mean_logit = take(requests.mean_logit);
  values.top1 = take(requests.top1);
  return values;
}

}  // namespace reprise
