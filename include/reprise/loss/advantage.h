// From rewards of whole completions to advantages, with the other completions of the same prompt as
// the baseline: GRPO, RLOO and REINFORCE with a baseline.
//
// A completion that no reward source can score (NaN everywhere) is left out of every mean and gets
// an advantage of 0, as in TRL. Samples of one prompt stand next to each other. Everything is
// float32, detached, and stays on its device. Advantages of tokens are in returns.h.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace reprise {

/// r is a completion's reward, n the number of scored completions in its group.
enum class GroupEstimator : uint8_t {
  Grpo,               ///< grpo, group_norm: (r - mean) / (deviation + epsilon), see RewardScale
  Rloo,               ///< rloo: r - (sum - r) / (n - 1), the mean of the others
  ReinforceBaseline,  ///< reinforce_baseline: r - mean; tokens are whitened later, see returns.h
};

/// By what Grpo divides. Deviations are unbiased (n - 1).
enum class RewardScale : uint8_t {
  Group,  ///< group: the deviation of the group
  Batch,  ///< batch: that of all rewards given
  None,   ///< none: nothing, which is Dr. GRPO's advantage
};

/// How several reward sources become one.
enum class RewardAggregation : uint8_t {
  SumThenNormalize,  ///< sum_then_normalize: the weighted sum is one reward
  NormalizeThenSum,  ///< normalize_then_sum: each is normalised in its group (GDPO), their weighted
                     ///< sum then over the batch
};

/// Each throws listing the names there are.
REPRISE_API GroupEstimator parse_group_estimator(std::string_view name);
REPRISE_API RewardScale parse_reward_scale(std::string_view name);
REPRISE_API RewardAggregation parse_reward_aggregation(std::string_view name);
REPRISE_API std::string_view name_of(GroupEstimator estimator);

struct AdvantageOptions {
  GroupEstimator estimator = GroupEstimator::Grpo;
  int64_t group_size = 8;  ///< samples a prompt
  RewardScale scale = RewardScale::Group;
  RewardAggregation aggregation = RewardAggregation::SumThenNormalize;
  double epsilon = 1e-4;              ///< added to deviations; OpenRLHF's is 1e-9
  bool normalize_advantages = false;  ///< Rloo: to mean 0 and deviation 1 over the batch
  /// Least and greatest combined reward, before any baseline and penalty (TRL's RLOO).
  std::optional<std::pair<double, double>> reward_clip = {};
};

/// Throws if an option is out of range or has no effect on this estimator, and says why. A group of
/// one is refused: it is its own baseline, so that all advantages would be 0.
REPRISE_API void validate(const AdvantageOptions& options);

/// (N): the weighted sum of the sources that could score each completion, NaN if none could.
/// rewards (N, K), NaN: this source cannot score it; weights (K).
REPRISE_API at::Tensor combined_rewards(const at::Tensor& rewards, const at::Tensor& weights);

/// (N), 0 where no source could score. N is a multiple of group_size, and a whole generation batch:
/// some means are over all of it. penalties (N) or undefined: what is taken from the combined and
/// clipped rewards, such as RLOO's beta times the KL of each completion.
///
/// A group whose rewards are all equal has advantages of exactly 0 under Grpo and
/// ReinforceBaseline: what rounding makes of its mean is not divided by epsilon.
REPRISE_API at::Tensor group_advantages(const at::Tensor& rewards,
                                        const at::Tensor& weights,
                                        const AdvantageOptions& options,
                                        const at::Tensor& penalties = {});

/// What groups have to tell, of combined rewards (N).
struct GroupSignal {
  at::Tensor means;       ///< (N / group_size), NaN if nothing is scored
  at::Tensor deviations;  ///< (N / group_size), unbiased; NaN with fewer than two scored
  at::Tensor has_signal;  ///< (N / group_size), bool: two rewards differ
};

/// Dynamic filtering (DAPO, OpenRLHF): with `means_between`, a group whose mean is not strictly
/// inside has no signal either. Groups without signal are for the caller to drop.
REPRISE_API GroupSignal group_signal(const at::Tensor& combined,
                                     int64_t group_size,
                                     std::optional<std::pair<double, double>> means_between = {});

}  // namespace reprise
