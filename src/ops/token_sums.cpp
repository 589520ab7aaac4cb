#include "ops/token_sums.h"

#include "ops/operator.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

namespace reprise::ops {

namespace reference {

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> token_sums(const at::Tensor& logits,
                                                                      const at::Tensor& targets,
                                                                      double scale,
                                                                      bool has_entropy) {
  const auto wide = logits.to(wide_type(logits)) * scale;
  const auto log_sums = wide.logsumexp(1);
  const auto logp = wide - log_sums.unsqueeze(1);
  const auto p = logp.exp();
  return {logp.gather(1, targets.unsqueeze(1)).squeeze(1),
          log_sums,
          // 0 log 0 is 0.
          has_entropy ? at::xlogy(p, p).sum(1).neg_() : at::empty({0}, wide.options()),
          (wide.argmax(1) == targets).to(wide.scalar_type())};
}

void token_slopes_(at::Tensor& logits,
                   const at::Tensor& targets,
                   const at::Tensor& log_sums,
                   const std::optional<at::Tensor>& entropies,
                   const std::optional<at::Tensor>& grad_logprobs,
                   const std::optional<at::Tensor>& grad_entropies,
                   double scale) {
  const auto wide = logits.to(wide_type(logits)) * scale;
  const auto p = (wide - log_sums.to(wide.scalar_type()).unsqueeze(1)).exp();
  auto slopes = at::zeros_like(p);
  if (grad_logprobs) {
    const auto a = grad_logprobs->to(p.scalar_type()).unsqueeze(1);
    slopes.sub_(p * a).scatter_add_(1, targets.unsqueeze(1), a);
  }
  if (grad_entropies) {
    const auto b = grad_entropies->to(p.scalar_type()).unsqueeze(1);
    const auto h = entropies.value().to(p.scalar_type()).unsqueeze(1);
    slopes.sub_((at::xlogy(p, p) + p * h) * b);
  }
  logits.copy_(slopes);
}

}  // namespace reference

RowSums token_sums(const at::Tensor& logits,
                   const at::Tensor& targets,
                   double scale,
                   bool has_entropy) {
  static const auto op = find_operator<decltype(reference::token_sums)>("reprise::token_sums");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto [logprobs, log_sums, entropies, hits] = op.call(logits, targets, scale, has_entropy);
  return {.logprobs = logprobs,
          .log_sums = log_sums,
          .entropies = has_entropy ? entropies : at::Tensor(),
          .hits = hits};
}

void token_slopes_(at::Tensor& logits,
                   const at::Tensor& targets,
                   const at::Tensor& log_sums,
                   const at::Tensor& entropies,
                   const TokenGradients& gradients,
                   double scale) {
  static const auto op =
      find_operator<decltype(reference::token_slopes_)>("reprise::token_slopes_");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.call(logits,
          targets,
          log_sums,
          as_optional(entropies),
          as_optional(gradients.logprobs),
          as_optional(gradients.entropies),
          scale);
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      "token_sums(Tensor logits, Tensor targets, float scale, bool has_entropy) -> (Tensor "
      "logprobs, Tensor log_sums, Tensor entropies, Tensor hits)");
  library.def(
      "token_slopes_(Tensor(a!) logits, Tensor targets, Tensor log_sums, Tensor? entropies, "
      "Tensor? grad_logprobs, Tensor? grad_entropies, float scale) -> ()");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("token_sums", reference::token_sums);
  library.impl("token_slopes_", reference::token_slopes_);
}

}  // namespace reprise::ops
