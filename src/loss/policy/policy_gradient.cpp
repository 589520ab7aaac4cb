// Notation as in the header: r is a ratio, A an advantage. A loss has two independent parts: the
// loss of a token (or sequence), and how these are aggregated.
#include <reprise/loss/policy_gradient.h>

#include "loss/masked.h"
#include "loss/policy/policy_terms.h"
#include "loss/policy/policy_traits.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>

namespace reprise {

namespace {

// The least or greatest share of clipped tokens among the sequences that have tokens.
Metric of_sequences(const char* name,
                    const at::Tensor& is_clipped,
                    const PolicyTerms& terms,
                    MetricMean mean) {
  const auto x = is_clipped.to(terms.counts.scalar_type());
  const auto lengths = terms.counts.sum(1);
  const auto shares = x.size(1) == 1 ? x.squeeze(1) : (x * terms.counts).sum(1) / lengths;
  return extreme_of(name, shares, at::ones_like(shares, at::kBool), mean);
}

void add_clip_metrics(const at::Tensor& ratios,
                      const PolicyTerms& terms,
                      const PolicyOptions& options,
                      std::vector<Metric>& metrics) {
  const auto r = ratios.detach();
  const auto low = (r < 1 - options.epsilon) & (terms.advantages < 0);
  const auto high = (r > 1 + upper_epsilon(options)) & (terms.advantages > 0);
  metrics.push_back(mean_of("clip_ratio/low_mean", low, terms));
  metrics.push_back(mean_of("clip_ratio/high_mean", high, terms));
  metrics.push_back(mean_of("clip_ratio/region_mean", low | high, terms));
  metrics.push_back(of_sequences("clip_ratio/low_min", low, terms, MetricMean::OfMinima));
  metrics.push_back(of_sequences("clip_ratio/high_max", high, terms, MetricMean::OfMaxima));
}

at::Tensor clipped(const PolicyTerms& terms,
                   const PolicyOptions& options,
                   std::vector<Metric>& metrics) {
  const auto& a = terms.advantages;
  const auto bounded = terms.ratios.clamp(1 - options.epsilon, 1 + upper_epsilon(options));
  const auto ratios = options.delta ? terms.ratios.clamp_max(*options.delta) : terms.ratios;
  auto gain = at::minimum(ratios * a, bounded * a);
  if (options.dual_clip) {
    gain = at::where(a < 0, at::maximum(gain, *options.dual_clip * a), gain);
  }
  add_clip_metrics(ratios, terms, options, metrics);
  return -gain;
}

at::Tensor cispo(const PolicyTerms& terms,
                 const PolicyOptions& options,
                 std::vector<Metric>& metrics) {
  const double greatest = upper_epsilon(options);
  const auto ratios = terms.ratios.detach();
  metrics.push_back(
      mean_of("cispo_clip_ratio", (ratios > greatest) & (terms.advantages > 0), terms));
  return -ratios.clamp_max(greatest) * terms.advantages * terms.logprobs;
}

at::Tensor sapo(const PolicyTerms& terms, const PolicyOptions& options) {
  const auto t = at::where(terms.advantages > 0,
                           options.sapo_temperature_positive,
                           options.sapo_temperature_negative)
                     .to(terms.counts.scalar_type());
  return -at::sigmoid(t * (terms.ratios - 1)) * 4 / t * terms.advantages;
}

// Losses without KL and entropy, (B, T) or (B, 1). `weights`: mismatch_weights(), or undefined.
at::Tensor policy_losses(const PolicyTerms& terms,
                         const at::Tensor& weights,
                         const PolicyOptions& options,
                         std::vector<Metric>& metrics) {
  using enum PolicyLoss;
  switch (options.loss) {
    case Grpo:
    case Bnpo:
    case DrGrpo:
    case Dapo:
    case Luspo:
    case Ppo:
    case Rloo:
      return clipped(terms, options, metrics);
    case Cispo:
      return cispo(terms, options, metrics);
    case Sapo:
      return sapo(terms, options);
    case Vespo: {
      const auto phi = vespo_weights(terms, weights, options);
      metrics.push_back(mean_of("vespo/phi_seq_mean", phi, terms));
      return -phi * terms.advantages * terms.logprobs;
    }
  }
  TORCH_INTERNAL_ASSERT(false, "no such policy loss");
}

double checked_total(double total, const char* name, PolicyLoss loss) {
  TORCH_CHECK(
      total > 0, "[policy] ", name_of(loss), " is divided by ", name, ", which must be positive");
  return total;
}

// 0 tokens is not an error: all completions of a step may have been masked as truncated.
double checked_tokens(double total, const char* name, PolicyLoss loss) {
  TORCH_CHECK(
      total >= 0, "[policy] ", name_of(loss), " is divided by ", name, ", which is missing");
  return std::max(total, 1.0);
}

// The contribution of this batch to the aggregate of the step. losses (B, T) or (B, 1).
at::Tensor aggregated(const at::Tensor& losses,
                      const PolicyTerms& terms,
                      const PolicyStep& step,
                      PolicyLoss loss) {
  using enum PolicyLoss;
  const auto sequences = [&] { return checked_total(step.sequences, "step.sequences", loss); };
  if (loss == Rloo) {
    return losses.sum() / sequences();
  }
  const auto of_tokens = losses * terms.counts;
  switch (loss) {
    case Grpo:
    case Sapo:
      return (of_tokens.sum(1) / terms.counts.sum(1).clamp_min(1)).sum() / sequences();
    case Luspo:
      return of_tokens.sum() / sequences();
    case DrGrpo:
      return of_tokens.sum() /
             (sequences() *
              checked_total(step.max_completion_length, "step.max_completion_length", loss));
    case Bnpo:
      return of_tokens.sum() / terms.counts.sum().clamp_min(1) /
             checked_total(step.micro_batches, "step.micro_batches", loss);
    case Dapo:
    case Cispo:
    case Vespo: {
      const double share =
          checked_total(step.micro_batches, "step.micro_batches", loss) /
          checked_total(step.generation_micro_batches, "step.generation_micro_batches", loss);
      return of_tokens.sum() /
             (checked_tokens(step.generation_tokens, "step.generation_tokens", loss) * share);
    }
    case Ppo:
      return of_tokens.sum() / checked_tokens(step.tokens, "step.tokens", loss);
    case Rloo:
      break;
  }
  TORCH_INTERNAL_ASSERT(false, "no such policy loss");
}

// TRL takes the mean over the micro-batch for every loss, OpenRLHF over the step.
at::Tensor entropy_part(const at::Tensor& entropy,
                        const at::Tensor& counts,
                        const PolicyStep& step,
                        PolicyLoss loss) {
  const auto sum = (entropy * counts).sum();
  return loss == PolicyLoss::Ppo
             ? sum / checked_tokens(step.tokens, "step.tokens", loss)
             : sum / counts.sum().clamp_min(1) /
                   checked_total(step.micro_batches, "step.micro_batches", loss);
}

// As TRL, which takes them over a whole generation batch.
void add_ratio_metrics(const at::Tensor& weights,
                       const PolicyTerms& terms,
                       std::vector<Metric>& metrics) {
  const std::string name = "sampling/importance_sampling_ratio/";
  const auto counts = weights.size(1) == 1 ? at::ones_like(weights, at::kBool) : terms.mask;
  metrics.push_back(extreme_of(name + "min", weights, counts, MetricMean::Least));
  metrics.push_back(mean_of(name + "mean", weights, terms, MetricMean::Pooled));
  metrics.push_back(extreme_of(name + "max", weights, counts, MetricMean::Greatest));
}

at::Tensor kl_of_tokens(const PolicyBatch& batch,
                        const PolicyTerms& terms,
                        const PolicyOptions& options) {
  const auto reference = masked(batch.reference_logprobs.detach(), terms.mask);
  const auto kl = kl_estimate(terms.logprobs, reference, options.kl, options.kl_clamp);
  return options.kl_bias_correction ? kl * terms.ratios : kl;
}

}  // namespace

PolicyResult policy_loss(const PolicyBatch& batch,
                         const PolicyStep& step,
                         const PolicyOptions& options) {
  validate(options);
  const auto terms = make_terms(batch, options);
  const auto& sampling = batch.sampling_logprobs;
  PolicyResult result;
  auto& metrics = result.metrics;

  const auto weights =
      needs_sampling(options) ? mismatch_weights(terms, sampling.detach(), options) : at::Tensor();
  auto losses = policy_losses(terms, weights, options, metrics);
  if (options.off_policy_threshold) {
    const auto keeps = off_policy_mask(terms, sampling, *options.off_policy_threshold);
    metrics.push_back(mean_of("off_policy_kept", keeps, terms, MetricMean::Pooled));
    losses = losses * keeps;
  }
  auto entropy_counts = terms.counts;
  if (options.top_entropy_quantile < 1) {
    const auto keeps = top_entropy_mask(terms, batch.entropy, options.top_entropy_quantile);
    losses = losses * keeps;
    entropy_counts = entropy_counts * keeps;
  }
  if (weights.defined()) {
    add_ratio_metrics(weights, terms, metrics);
    // VESPO's phi already includes the weights.
    losses = options.loss == PolicyLoss::Vespo ? losses : losses * weights;
  }
  if (options.beta > 0) {
    const auto kl = kl_of_tokens(batch, terms, options);
    metrics.push_back(mean_of("kl", kl, terms));
    losses = losses + options.beta * kl;
  }
  result.part = aggregated(losses, terms, step, options.loss);

  if (batch.entropy.defined()) {
    const auto entropy = masked(batch.entropy, terms.mask);
    metrics.push_back(mean_of("entropy", entropy, terms));
    if (options.entropy_coef > 0) {
      result.part = result.part - options.entropy_coef *
                                      entropy_part(entropy, entropy_counts, step, options.loss);
    }
  }
  if (batch.old_logprobs.defined()) {
    metrics.push_back(mean_of("ratio_mean", terms.ratios, terms, MetricMean::Pooled));
    metrics.push_back(mean_of("old_kl", -terms.log_ratios, terms, MetricMean::Pooled));
  }
  if (sampling.defined()) {
    add_mismatch_metrics(terms, sampling, metrics);
  }
  return result;
}

}  // namespace reprise
