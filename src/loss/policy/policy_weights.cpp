// Weights of tokens and sequences without gradients: for the mismatch between sampler and trained
// model, for off-policy sequences, for entropy, and VESPO's phi.
#include "loss/masked.h"
#include "loss/policy/policy_terms.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <optional>

namespace reprise {

namespace {

// The authors of VESPO clip log-ratios to [log(1e-8), 20].
const double kLeastLogWeight = std::log(1e-8);
constexpr double kGreatestLogWeight = 20.0;

// a - b, or 0 where the sampler reported no log-probability (NaN).
at::Tensor known_difference(const at::Tensor& a, const at::Tensor& b, const PolicyTerms& terms) {
  const auto difference = (a - b).detach();
  return difference.masked_fill(~terms.mask | difference.isnan(), 0);
}

at::Tensor mean_over_tokens(const at::Tensor& values, const PolicyTerms& terms) {
  return values.sum(1, /*keepdim=*/true) / terms.counts.sum(1, /*keepdim=*/true).clamp_min(1);
}

at::Tensor is_outside(const at::Tensor& ratios, const PolicyOptions& options) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return (ratios < options.mismatch_least.value_or(-infinity)) |
         (ratios > options.mismatch_greatest.value_or(infinity));
}

at::Tensor cut(const at::Tensor& ratios, const PolicyOptions& options) {
  const auto bound = [](std::optional<double> value) {
    return value ? std::optional<at::Scalar>(*value) : std::nullopt;
  };
  return ratios.clamp(bound(options.mismatch_least), bound(options.mismatch_greatest));
}

}  // namespace

at::Tensor mismatch_weights(const PolicyTerms& terms,
                            const at::Tensor& sampling,
                            const PolicyOptions& options) {
  const auto difference = known_difference(terms.old, sampling.to(terms.old.options()), terms);
  const auto of_tokens = difference.exp();
  const auto of_sequences = [&] { return difference.sum(1, /*keepdim=*/true).exp(); };
  switch (options.mismatch) {
    case MismatchCorrection::TokenTruncate:
      return cut(of_tokens, options);
    case MismatchCorrection::TokenMask:
      return of_tokens.masked_fill(is_outside(of_tokens, options), 0);
    case MismatchCorrection::SequenceTruncate:
      return cut(of_sequences(), options);
    case MismatchCorrection::SequenceMask: {
      const auto ratios = of_sequences();
      return ratios.masked_fill(is_outside(ratios, options), 0);
    }
    case MismatchCorrection::GeometricMask: {
      const auto means = mean_over_tokens(difference, terms).exp();
      return of_tokens.masked_fill(is_outside(means, options), 0);
    }
    case MismatchCorrection::None:
      break;
  }
  TORCH_INTERNAL_ASSERT(false, "no mismatch correction");
}

void add_mismatch_metrics(const PolicyTerms& terms,
                          const at::Tensor& sampling,
                          std::vector<Metric>& metrics) {
  const auto given = sampling.detach().to(terms.old.options());
  const auto difference = known_difference(terms.old, given, terms);
  const auto known = (terms.mask & ~(terms.old - given).isnan()).sum().to(given.scalar_type());
  metrics.push_back({"sampling/sampling_logp_difference/mean", difference.abs().sum(), known});
  metrics.push_back(extreme_of("sampling/sampling_logp_difference/max",
                               (terms.old - given).abs(),
                               terms.mask,
                               MetricMean::Greatest));
  metrics.push_back({"sampling/kl", -difference.sum(), known});
}

at::Tensor off_policy_mask(const PolicyTerms& terms, const at::Tensor& sampling, double threshold) {
  const auto before = sampling.defined() ? sampling.to(terms.old.options()) : terms.old;
  const auto drift = mean_over_tokens(known_difference(before, terms.logprobs, terms), terms);
  return ((terms.advantages >= 0) | (drift <= threshold)).to(terms.counts.scalar_type());
}

at::Tensor top_entropy_mask(const PolicyTerms& terms, const at::Tensor& entropy, double share) {
  // nanquantile skips masked tokens; selecting tokens would wait for the device.
  const auto counting =
      upcast(entropy.detach()).masked_fill(~terms.mask, std::numeric_limits<double>::quiet_NaN());
  return (counting >= counting.flatten().nanquantile(1 - share)).to(terms.counts.scalar_type());
}

at::Tensor vespo_weights(const PolicyTerms& terms,
                         const at::Tensor& weights,
                         const PolicyOptions& options) {
  auto log_w = terms.log_ratios.detach()
                   .clamp(-kGreatestLogWeight, kGreatestLogWeight)
                   .sum(1, /*keepdim=*/true);
  if (weights.defined()) {
    log_w = log_w + weights.log().clamp(kLeastLogWeight, kGreatestLogWeight).sum(1, true);
  }
  log_w = log_w.clamp(kLeastLogWeight, kGreatestLogWeight);
  const auto is_good = terms.advantages >= 0;
  const auto k = at::where(is_good, options.vespo_k_positive, options.vespo_k_negative);
  const auto lambda =
      at::where(is_good, options.vespo_lambda_positive, options.vespo_lambda_negative)
          .clamp_min(1e-4);
  const auto log_phi = lambda + k * log_w - lambda * log_w.exp();
  return log_phi.exp().to(terms.counts.scalar_type());
}

}  // namespace reprise
