// Policy-gradient losses on sampled completions: PPO, GRPO and their family.
//
// The ratio compares the policy with the old policy, which sampled. Losses differ in how they bound
// the ratio and in how they weight tokens, sequences and batches. Everything is float32. Without
// old log-probabilities the ratio is exactly 1, with a gradient. No function waits for the device.
#pragma once

#include <reprise/export.h>
#include <reprise/loss/kl.h>
#include <reprise/loss/metric.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace reprise {

/// Each with its name, which is TRL's if TRL has the loss. r is the ratio, A the advantage, el and
/// eh are epsilon and epsilon_high, lp is the log-probability, and sg() stops the gradient.
/// "Clipped" is -min(r A, clip(r, 1 - el, 1 + eh) A). All sums run over the optimizer step.
enum class PolicyLoss : uint8_t {
  Grpo,    ///< grpo: clipped; mean over sequences of their means over tokens
  Bnpo,    ///< bnpo: clipped; mean over the tokens of each micro-batch
  DrGrpo,  ///< dr_grpo: clipped; sum / (sequences * max_completion_length)
  Dapo,    ///< dapo: clipped; sum / this step's share of the tokens in the generation batch
  Luspo,   ///< luspo: clipped; mean over sequences of their sums
  Cispo,   ///< cispo: -sg(min(r, eh)) A lp, where eh is an absolute bound; summed like dapo
  Sapo,    ///< sapo: -4/t sigmoid(t (r - 1)) A, t depends on the sign of A; summed like grpo
  Vespo,   ///< vespo: -sg(e^(l + k log w - l w)) A lp, w is the sequence ratio; summed like dapo
  Ppo,     ///< ppo: clipped, log-ratios capped at 20; mean over the tokens of the step (OpenRLHF)
  Rloo,    ///< rloo: clipped, r = e^(sum of log-ratios); mean over sequences
};

/// Whether ratios are per token or per sequence.
enum class RatioLevel : uint8_t {
  Token,     ///< token
  Sequence,  ///< sequence: GSPO, e^(mean of the sequence's log-ratios)
};

/// Weights for tokens whose old log-probability, as computed by the trained model, differs from the
/// one it was sampled with. r is e^(old - sampling); the range is [mismatch_least,
/// mismatch_greatest].
enum class MismatchCorrection : uint8_t {
  None,              ///< none
  TokenTruncate,     ///< token_truncate, tis: r, clipped to the range
  TokenMask,         ///< token_mask, icepop: r, or 0 outside the range
  SequenceTruncate,  ///< sequence_truncate: the product of r over the sequence, clipped
  SequenceMask,      ///< sequence_mask: that product, or 0 outside the range
  GeometricMask,  ///< seq-mask-tis: r, or 0 if the geometric mean of r over the sequence is outside
};

/// Each throws for an unknown name and lists the known ones.
REPRISE_API PolicyLoss parse_policy_loss(std::string_view name);
REPRISE_API RatioLevel parse_ratio_level(std::string_view name);
REPRISE_API MismatchCorrection parse_mismatch_correction(std::string_view name);
REPRISE_API std::string_view name_of(PolicyLoss loss);

struct PolicyOptions {
  PolicyLoss loss = PolicyLoss::Dapo;
  RatioLevel level = RatioLevel::Token;
  double epsilon = 0.2;
  std::optional<double> epsilon_high = {};  ///< default: epsilon
  std::optional<double> delta = {};  ///< two-sided clipping (INTELLECT-2): upper bound on the ratio
  std::optional<double> dual_clip = {};  ///< Ppo: for A < 0 the loss is at most -dual_clip * A

  double beta = 0.0;  ///< coefficient of the KL from the reference, added to each token's loss
  KlEstimator kl = KlEstimator::K3;
  std::optional<double> kl_clamp = {};  ///< see kl_estimate
  /// Multiplies the KL by the ratio, which gives it the gradient of the reverse KL. true is TRL's
  /// default; OpenRLHF does not do this.
  bool kl_bias_correction = true;

  double sapo_temperature_positive = 1.0;
  double sapo_temperature_negative = 1.05;
  double vespo_k_positive = 2.0, vespo_lambda_positive = 3.0;
  double vespo_k_negative = 3.0, vespo_lambda_negative = 2.0;

  double entropy_coef = 0.0;  ///< times the mean entropy, subtracted from the loss
  double top_entropy_quantile =
      1.0;  ///< share of tokens, highest entropy first, with a policy loss
  /// Drops a sequence with A < 0 if its mean of (sampling or old) minus policy log-probability is
  /// above this (DeepSeek-V3.2).
  std::optional<double> off_policy_threshold = {};
  MismatchCorrection mismatch = MismatchCorrection::None;
  /// TRL uses no lower bound and 3 as the upper bound, OpenRLHF uses [0.5, 5].
  std::optional<double> mismatch_least = {}, mismatch_greatest = {};
};

/// Throws if an option is out of range, has no effect on this loss or is not defined for it.
REPRISE_API void validate(const PolicyOptions& options);

REPRISE_API bool needs_reference(const PolicyOptions& options);
REPRISE_API bool needs_entropy(const PolicyOptions& options);
/// Whether PolicyBatch needs sampling_logprobs.
REPRISE_API bool needs_sampling(const PolicyOptions& options);

/// A micro-batch. All tensors are (B, T) unless noted; values outside the mask may be anything,
/// even NaN. All log-probabilities are those of logits / sampling temperature.
struct PolicyBatch {
  at::Tensor logprobs;                 ///< of the policy, with gradients
  at::Tensor old_logprobs = {};        ///< undefined: logprobs.detach()
  at::Tensor reference_logprobs = {};  ///< undefined unless needs_reference
  /// As reported by the sampler, NaN where it reported none. Undefined: no mismatch metrics.
  at::Tensor sampling_logprobs = {};
  at::Tensor advantages;    ///< (B), or (B, T)
  at::Tensor mask;          ///< nonzero: a token of the completion
  at::Tensor entropy = {};  ///< of the policy; with gradients if entropy_coef is set
};

/// Totals of the optimizer step that a micro-batch belongs to. All micro-batches of a step are
/// divided by the same totals, so that they add up to the loss of the step, as with gradient
/// accumulation in TRL. Totals that a loss does not divide by can be left out.
struct PolicyStep {
  double micro_batches = 1;  ///< Bnpo, Dapo, Cispo, Vespo; entropy_coef for all but Ppo
  double sequences = 0;  ///< including those with an empty mask: Grpo, DrGrpo, Luspo, Sapo, Rloo
  double tokens = -1;    ///< inside the masks: Ppo
  double generation_tokens = -1;  ///< inside the masks of the generation batch: Dapo, Cispo, Vespo
  double generation_micro_batches = 1;  ///< TRL's steps_per_generation: Dapo, Cispo, Vespo
  double max_completion_length = 0;     ///< DrGrpo
};

struct PolicyResult {
  at::Tensor part;  ///< scalar: contribution to the loss of the step; call backward on it
  /// Under TRL's names: kl, entropy, clip_ratio/low_mean, /low_min, /high_mean, /high_max and
  /// /region_mean, cispo_clip_ratio, vespo/phi_seq_mean, sampling/sampling_logp_difference/mean and
  /// /max, sampling/importance_sampling_ratio/min, /mean and /max; and ratio_mean, old_kl
  /// (OpenRLHF's ppo_kl, mean of old minus policy log-probability), sampling/kl (mean of sampling
  /// minus old), off_policy_kept.
  /// Metrics that do not apply to the options or inputs are absent.
  std::vector<Metric> metrics;
};

/// Gradients flow to batch.logprobs, and to batch.entropy if entropy_coef is set. GSPO with
/// mismatch correction in OpenRLHF compares with the sampler directly: pass its log-probabilities
/// as old_logprobs.
REPRISE_API PolicyResult policy_loss(const PolicyBatch& batch,
                                     const PolicyStep& step,
                                     const PolicyOptions& options);

}  // namespace reprise
