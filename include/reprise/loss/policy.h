// Policy-gradient losses on sampled completions: PPO, GRPO and their family.
//
// A ratio compares the policy with the one that sampled (old); losses differ in how they bound it
// and in what a token, a sequence and a batch count. Everything is float32. Where no old
// log-probabilities are given the ratio is exactly 1, with a gradient. Nothing waits for the
// device.
#pragma once

#include <reprise/export.h>
#include <reprise/loss/figure.h>
#include <reprise/loss/kl.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise {

/// Each with its name, which is TRL's where TRL has the loss. r is the ratio, A the advantage,
/// el and eh the epsilons, lp the log-probability, sg() has no gradient. "Clipped" is
/// -min(r A, clip(r, 1 - el, 1 + eh) A). All sums are over the optimizer step.
enum class PolicyLoss : uint8_t {
  Grpo,    ///< grpo: clipped; mean over sequences of their means over tokens
  Bnpo,    ///< bnpo: clipped; mean over the tokens of each micro-batch
  DrGrpo,  ///< dr_grpo: clipped; sum / (sequences * max_completion_length)
  Dapo,    ///< dapo: clipped; sum / share of the tokens of the generation batch
  Luspo,   ///< luspo: clipped; mean over sequences of their sums
  Cispo,   ///< cispo: -sg(min(r, eh)) A lp, where eh is absolute; summed as dapo
  Sapo,    ///< sapo: -4/t sigmoid(t (r - 1)) A, t by the sign of A; summed as grpo
  Vespo,   ///< vespo: -sg(e^(l + k log w - l w)) A lp, w the sequence's ratio; summed as dapo
  Ppo,     ///< ppo: clipped, log-ratios cut at 20; mean over the tokens of the step (OpenRLHF)
  Rloo,    ///< rloo: clipped, r = e^(sum of log-ratios); mean over sequences
};

/// What a ratio is of.
enum class RatioLevel : uint8_t {
  Token,     ///< token
  Sequence,  ///< sequence: GSPO, e^(mean of the sequence's log-ratios)
};

/// What weighs a token whose old log-probability, which the trained model computed, differs from
/// the one it was sampled with. r is e^(old - sampling); "outside" is of mismatch_range.
enum class MismatchCorrection : uint8_t {
  None,              ///< none
  TokenTruncate,     ///< token_truncate, tis: r, cut to the range
  TokenMask,         ///< token_mask, icepop: r, or 0 outside
  SequenceTruncate,  ///< sequence_truncate: the product of the sequence's r, cut to the range
  SequenceMask,      ///< sequence_mask: that product, or 0 outside
  GeometricMask,     ///< seq-mask-tis: r, or 0 where the geometric mean of the sequence is outside
};

/// Each throws listing the names there are.
REPRISE_API PolicyLoss parse_policy_loss(std::string_view name);
REPRISE_API RatioLevel parse_ratio_level(std::string_view name);
REPRISE_API MismatchCorrection parse_mismatch_correction(std::string_view name);
REPRISE_API std::string_view name_of(PolicyLoss loss);

struct PolicyOptions {
  PolicyLoss loss = PolicyLoss::Dapo;
  RatioLevel level = RatioLevel::Token;
  double epsilon = 0.2;
  std::optional<double> epsilon_high = {};  ///< epsilon unless given
  std::optional<double> delta = {};      ///< two-sided clip (INTELLECT-2): no ratio above it counts
  std::optional<double> dual_clip = {};  ///< Ppo: where A < 0 the loss is at most -dual_clip * A

  double beta = 0.0;  ///< coefficient of the KL from the reference, added to the loss of each token
  KlEstimator kl = KlEstimator::K3;
  std::optional<double> kl_clamp = {};  ///< see kl_estimate
  /// The KL times the ratio, which makes its gradient that of the reverse KL. TRL's default; false
  /// is OpenRLHF.
  bool kl_bias_correction = true;

  double sapo_temperature_positive = 1.0;
  double sapo_temperature_negative = 1.05;
  double vespo_k_positive = 2.0, vespo_lambda_positive = 3.0;
  double vespo_k_negative = 3.0, vespo_lambda_negative = 2.0;

  double entropy_coef = 0.0;          ///< the loss is lowered by this times the mean entropy
  double top_entropy_quantile = 1.0;  ///< share of the tokens, by entropy, that have a policy loss
  /// A sequence with A < 0 is dropped if the mean of sampling (or old) minus policy log-probability
  /// is above this (DeepSeek-V3.2).
  std::optional<double> off_policy_threshold = {};
  MismatchCorrection mismatch = MismatchCorrection::None;
  /// TRL's range has no least value and 3 as the greatest, OpenRLHF's is [0.5, 5].
  std::optional<double> mismatch_least = {}, mismatch_greatest = {};
};

/// Throws if an option is out of range, has no effect on this loss or no meaning with it, and says
/// why.
REPRISE_API void validate(const PolicyOptions& options);

REPRISE_API bool needs_reference(const PolicyOptions& options);
REPRISE_API bool needs_entropy(const PolicyOptions& options);
/// Whether PolicyBatch needs sampling_logprobs.
REPRISE_API bool needs_sampling(const PolicyOptions& options);

/// A micro-batch. All (B, T) unless said; what the mask leaves out may hold anything, even NaN. All
/// log-probabilities are of logits / temperature of the sampling.
struct PolicyBatch {
  at::Tensor logprobs;                 ///< of the policy, with gradient
  at::Tensor old_logprobs = {};        ///< undefined: logprobs, detached
  at::Tensor reference_logprobs = {};  ///< undefined unless needs_reference
  /// As the sampler gave them, NaN where it did not. Undefined: nothing is said about a mismatch.
  at::Tensor sampling_logprobs = {};
  at::Tensor advantages;    ///< (B), or (B, T)
  at::Tensor mask;          ///< nonzero: a token of the completion
  at::Tensor entropy = {};  ///< of the policy at each token; with gradient if entropy_coef is set
};

/// Totals of the optimizer step that a micro-batch is a part of. All parts of a step are divided by
/// the same ones, so that they add up to its loss as with TRL's accumulation. Those that a loss is
/// not divided by need not be given.
struct PolicyStep {
  double micro_batches = 1;  ///< Bnpo, Dapo, Cispo, Vespo; and entropy_coef of all but Ppo
  double sequences = 0;  ///< rows, also those with an empty mask: Grpo, DrGrpo, Luspo, Sapo, Rloo
  double tokens = -1;    ///< under the masks: Ppo
  double generation_tokens = -1;  ///< under the masks of the generation batch: Dapo, Cispo, Vespo
  double generation_micro_batches = 1;  ///< TRL's steps_per_generation: Dapo, Cispo, Vespo
  double max_completion_length = 0;     ///< DrGrpo
};

struct PolicyResult {
  at::Tensor part;  ///< scalar: the batch's part of the step's loss, to call backward on
  /// Under TRL's names: kl, entropy, clip_ratio/low_mean, /high_mean and /region_mean,
  /// cispo_clip_ratio, vespo/phi_seq_mean, sampling/sampling_logp_difference/mean,
  /// sampling/importance_sampling_ratio/mean; and ratio_mean, old_kl (OpenRLHF's ppo_kl, mean of
  /// old minus policy log-probability), sampling/kl (mean of sampling minus old), off_policy_kept.
  /// Those that the options or inputs have nothing to say about are absent.
  std::vector<Figure> figures;
};

/// Gradients reach batch.logprobs, and batch.entropy if entropy_coef is set. OpenRLHF's GSPO with a
/// correction of the mismatch compares with the sampler directly: give its numbers as old_logprobs.
REPRISE_API PolicyResult policy_loss(const PolicyBatch& batch,
                                     const PolicyStep& step,
                                     const PolicyOptions& options);

}  // namespace reprise
