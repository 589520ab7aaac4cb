// Prepares a micro-batch: checks shapes, upcasts, masks, and computes ratios.
#include "loss/policy/policy_terms.h"

#include "loss/masked.h"

#include <ATen/ATen.h>

#include <limits>
#include <utility>

namespace reprise {

namespace {

// OpenRLHF's PPO caps ratios at e^20.
constexpr double kLargestPpoLogRatio = 20.0;

at::Tensor checked_mask_of(const PolicyBatch& batch, const PolicyOptions& options) {
  const auto mask = checked_mask("policy", batch.mask, {{"log-probabilities", batch.logprobs}});
  const auto check = [&](bool is_needed, const char* name, const at::Tensor& tensor) {
    if (is_needed || tensor.defined()) {
      checked_mask("policy", batch.mask, {{name, tensor}});
    }
  };
  check(false, "old log-probabilities", batch.old_logprobs);
  check(needs_reference(options), "reference log-probabilities", batch.reference_logprobs);
  check(needs_sampling(options), "sampling log-probabilities", batch.sampling_logprobs);
  check(needs_entropy(options), "entropies", batch.entropy);
  TORCH_CHECK(!options.off_policy_threshold || batch.old_logprobs.defined() ||
                  batch.sampling_logprobs.defined(),
              "[policy] off_policy_mask_threshold needs old or sampling log-probabilities: without "
              "them no sequence is off-policy");
  return mask;
}

at::Tensor checked_advantages(const PolicyBatch& batch,
                              const PolicyOptions& options,
                              const at::Tensor& mask) {
  const auto& given = batch.advantages;
  const bool is_per_row =
      given.defined() && given.dim() == 1 && given.size(0) == batch.mask.size(0);
  const bool is_per_token = given.defined() && given.sizes() == batch.mask.sizes();
  TORCH_CHECK(is_per_row || (is_per_token && options.loss != PolicyLoss::Rloo),
              "[policy] expected advantages of completions (B)",
              options.loss == PolicyLoss::Rloo ? "" : " or of tokens (B, T)",
              ", where (B, T) is ",
              batch.mask.sizes(),
              given.defined() ? c10::str("; found ", given.sizes()) : std::string());
  return is_per_row ? given.detach().unsqueeze(1) : masked(given.detach(), mask);
}

at::Tensor ratios_of(const PolicyTerms& terms, const PolicyOptions& options) {
  if (options.loss == PolicyLoss::Rloo) {
    return terms.log_ratios.sum(1, /*keepdim=*/true).exp();
  }
  if (options.loss == PolicyLoss::Ppo) {
    return terms.log_ratios.clamp(-kLargestPpoLogRatio, kLargestPpoLogRatio).exp();
  }
  if (options.level == RatioLevel::Sequence) {
    const auto lengths = terms.counts.sum(1, /*keepdim=*/true).clamp_min(1);
    return (terms.log_ratios.sum(1, /*keepdim=*/true) / lengths).exp();
  }
  return terms.log_ratios.exp();
}

}  // namespace

PolicyTerms make_terms(const PolicyBatch& batch, const PolicyOptions& options) {
  PolicyTerms terms;
  terms.mask = checked_mask_of(batch, options);
  terms.logprobs = masked(batch.logprobs, terms.mask);
  const auto like = terms.logprobs.options();
  terms.counts = terms.mask.to(like);
  terms.old = batch.old_logprobs.defined()
                  ? masked(batch.old_logprobs.detach(), terms.mask).to(like)
                  : terms.logprobs.detach();
  terms.log_ratios = terms.logprobs - terms.old;
  terms.ratios = ratios_of(terms, options);
  terms.advantages = checked_advantages(batch, options, terms.mask).to(like);
  return terms;
}

Metric mean_of(std::string name,
               const at::Tensor& values,
               const PolicyTerms& terms,
               MetricMean mean) {
  const auto x = values.detach().to(terms.counts.scalar_type());
  if (x.size(1) == 1) {
    return {std::move(name),
            x.sum(),
            at::full({}, static_cast<double>(x.size(0)), terms.counts.options()),
            mean};
  }
  return {std::move(name), (x * terms.counts).sum(), terms.counts.sum(), mean};
}

Metric extreme_of(std::string name,
                  const at::Tensor& values,
                  const at::Tensor& counts,
                  MetricMean mean) {
  const bool is_least = mean == MetricMean::OfMinima || mean == MetricMean::Least;
  const auto x = values.detach().to(at::kFloat);
  const double beyond =
      is_least ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  const auto known = counts & ~x.isnan();
  const auto others = x.masked_fill(~known, beyond);
  const auto is_any = known.any();
  const auto value = is_least ? others.amin() : others.amax();
  return {std::move(name), at::where(is_any, value, 0), is_any.to(at::kFloat), mean};
}

}  // namespace reprise
