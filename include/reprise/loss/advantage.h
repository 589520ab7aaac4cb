// Group advantages: rewards of whole completions become advantages, with the other completions of
// the same prompt as the baseline (GRPO, RLOO, REINFORCE with a baseline).
//
// The completions of one prompt (a group) are adjacent. A completion that no reward source could
// score (NaN from all of them) is left out of every mean and gets advantage 0, as in TRL. Results
// are float32, detached and on the device of the rewards. For per-token advantages see returns.h.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace reprise {

/// r is the reward of a completion, n the number of scored completions in its group.
enum class GroupEstimator : uint8_t {
  Grpo,               ///< grpo: (r - mean) / (standard deviation + epsilon), see RewardScale
  Rloo,               ///< rloo: r - (sum - r) / (n - 1): minus the mean of the others
  ReinforceBaseline,  ///< reinforce_baseline: r - mean; tokens are whitened later, see returns.h
};

/// What Grpo divides by. Standard deviations are unbiased (n - 1).
enum class RewardScale : uint8_t {
  Group,  ///< group: the standard deviation of the group
  Batch,  ///< batch: the standard deviation of all rewards
  None,   ///< none: no scaling, as in Dr. GRPO
};

/// How the rewards of several sources are combined.
enum class RewardAggregation : uint8_t {
  SumThenNormalize,  ///< sum_then_normalize: the weighted sum is one reward
  NormalizeThenSum,  ///< normalize_then_sum (GDPO): each source is normalised in its group, then
                     ///< the weighted sum over the batch
};

/// Each throws for an unknown name and lists the known ones.
REPRISE_API RewardScale parse_reward_scale(std::string_view name);
REPRISE_API RewardAggregation parse_reward_aggregation(std::string_view name);
REPRISE_API std::string_view name_of(GroupEstimator estimator);

struct AdvantageOptions {
  GroupEstimator estimator = GroupEstimator::Grpo;
  int64_t group_size = 8;  ///< completions per prompt
  RewardScale scale = RewardScale::Group;
  RewardAggregation aggregation = RewardAggregation::SumThenNormalize;
  double epsilon = 1e-4;              ///< added to the standard deviation; OpenRLHF uses 1e-9
  bool normalize_advantages = false;  ///< Rloo: to mean 0 and standard deviation 1 over the batch
  /// Range to which combined rewards are clipped, before baseline and penalties (RLOO in TRL).
  std::optional<std::pair<double, double>> reward_clip = {};
};

/// Throws if an option is out of range or has no effect on this estimator. A group of one is
/// refused: it would be its own baseline, and all advantages would be 0.
REPRISE_API void validate(const AdvantageOptions& options);

/// Returns (N): the weighted sum over the sources that scored each completion, NaN if none did.
/// rewards (N, K), NaN where a source has no score; weights (K).
REPRISE_API at::Tensor combined_rewards(const at::Tensor& rewards, const at::Tensor& weights);

/// Returns (N), 0 where no source had a score. rewards (N, K) must be a whole generation batch,
/// since some means run over all of it; N is a multiple of group_size. penalties (N), or undefined,
/// are subtracted from the combined and clipped rewards, such as RLOO's beta times the KL.
///
/// If all rewards of a group are equal, Grpo and ReinforceBaseline give exactly 0: a rounding error
/// in the mean is not amplified by 1 / epsilon.
REPRISE_API at::Tensor group_advantages(const at::Tensor& rewards,
                                        const at::Tensor& weights,
                                        const AdvantageOptions& options,
                                        const at::Tensor& penalties = {});

/// Statistics of each group, G = N / group_size.
struct GroupSignal {
  at::Tensor means;       ///< (G), NaN if nothing is scored
  at::Tensor deviations;  ///< (G), unbiased standard deviation; NaN with fewer than two scores
  at::Tensor has_signal;  ///< (G) bool: at least two rewards differ
};

/// For dynamic filtering (DAPO, OpenRLHF). combined (N), from combined_rewards(). With
/// `means_between`, a group whose mean is not strictly inside that range has no signal either.
/// Dropping groups without signal is up to the caller.
REPRISE_API GroupSignal group_signal(const at::Tensor& combined,
                                     int64_t group_size,
                                     std::optional<std::pair<double, double>> means_between = {});

}  // namespace reprise
