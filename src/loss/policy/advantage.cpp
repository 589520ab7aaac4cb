// The group estimators, with means and standard deviations that skip NaN. Groups are rows,
// (N / group_size, group_size), with the reward sources as a last dimension while they are
// separate.
#include <reprise/loss/advantage.h>

#include "loss/upcast.h"

#include <ATen/ATen.h>

#include <limits>

namespace reprise {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Unbiased standard deviation, NaN with fewer than two scores. Reduced dimensions are kept.
at::Tensor deviation(const at::Tensor& values, at::IntArrayRef dims) {
  const auto count = values.isnan().logical_not().sum(dims, /*keepdim=*/true);
  const auto squares = (values - values.nanmean(dims, /*keepdim=*/true)).square();
  const auto variance = squares.nansum(dims, /*keepdim=*/true) / (count - 1);
  return variance.sqrt().masked_fill(count < 2, kNan);
}

// Whether two scored rewards of a group differ. Unlike a standard deviation this is exact.
at::Tensor rewards_differ(const at::Tensor& groups) {
  const auto unscored = groups.isnan();
  return groups.masked_fill(unscored, -kInfinity).amax(1, /*keepdim=*/true) >
         groups.masked_fill(unscored, kInfinity).amin(1, /*keepdim=*/true);
}

at::Tensor minus_group_mean(const at::Tensor& groups) {
  // x - x is 0, or NaN where there is no score.
  return at::where(
      rewards_differ(groups), groups - groups.nanmean(1, /*keepdim=*/true), groups - groups);
}

at::Tensor normalized(const at::Tensor& values, double epsilon) {
  return (values - values.nanmean()) / (deviation(values, {0}) + epsilon);
}

at::Tensor leave_one_out(const at::Tensor& groups) {
  const auto others = groups.isnan().logical_not().sum(1, /*keepdim=*/true) - 1;
  return groups - (groups.nansum(1, /*keepdim=*/true) - groups) / others;
}

at::Tensor in_groups(const at::Tensor& rewards, int64_t size) {
  TORCH_CHECK(rewards.size(0) > 0 && rewards.size(0) % size == 0,
              "[advantage] expected whole groups of ",
              size,
              " samples, found ",
              rewards.size(0),
              " samples");
  return rewards.dim() == 1 ? rewards.view({-1, size}) : rewards.view({-1, size, rewards.size(1)});
}

// (N), NaN where no source has a score.
at::Tensor weighted_sum(const at::Tensor& rewards, const at::Tensor& weights) {
  return (rewards * weights).nansum(1).masked_fill(rewards.isnan().all(1), kNan);
}

struct Inputs {
  at::Tensor rewards, weights;
};

Inputs checked(const at::Tensor& rewards, const at::Tensor& weights) {
  TORCH_CHECK(rewards.defined() && rewards.dim() == 2 && rewards.size(1) > 0,
              "[advantage] expected rewards (N, K) of K sources");
  TORCH_CHECK(weights.defined() && weights.dim() == 1 && weights.size(0) == rewards.size(1),
              "[advantage] expected a weight for each of ",
              rewards.size(1),
              " reward sources");
  const auto values = upcast(rewards.detach()).contiguous();
  return {values, weights.detach().to(values.options())};
}

// GDPO: normalises each source, then their sum.
at::Tensor normalize_then_sum(const Inputs& inputs, const AdvantageOptions& options) {
  const auto groups = in_groups(inputs.rewards, options.group_size);
  const auto scores = minus_group_mean(groups) / (deviation(groups, {1}) + options.epsilon);
  const auto sums = (scores.view_as(inputs.rewards) * inputs.weights).nansum(1);
  // A normalised reward is also NaN if it was the only one of its source in the group; such a
  // completion does have a score.
  const auto unscorable = inputs.rewards.isnan().all(1);
  return normalized(sums.masked_fill(unscorable, kNan), options.epsilon);
}

at::Tensor grpo(const at::Tensor& rewards, const AdvantageOptions& options) {
  const auto groups = in_groups(rewards, options.group_size);
  const auto centered = minus_group_mean(groups);
  switch (options.scale) {
    case RewardScale::Group:
      return (centered / (deviation(groups, {1}) + options.epsilon)).view(-1);
    case RewardScale::Batch:
      return (centered / (deviation(groups, {0, 1}) + options.epsilon)).view(-1);
    case RewardScale::None:
      return centered.view(-1);
  }
  TORCH_INTERNAL_ASSERT(false, "no such scale");
}

at::Tensor estimate(const at::Tensor& rewards, const AdvantageOptions& options) {
  switch (options.estimator) {
    case GroupEstimator::Grpo:
      return grpo(rewards, options);
    case GroupEstimator::Rloo: {
      const auto advantages = leave_one_out(in_groups(rewards, options.group_size)).view(-1);
      return options.normalize_advantages ? normalized(advantages, options.epsilon) : advantages;
    }
    case GroupEstimator::ReinforceBaseline:
      return minus_group_mean(in_groups(rewards, options.group_size)).view(-1);
  }
  TORCH_INTERNAL_ASSERT(false, "no such estimator");
}

}  // namespace

at::Tensor combined_rewards(const at::Tensor& rewards, const at::Tensor& weights) {
  const auto inputs = checked(rewards, weights);
  return weighted_sum(inputs.rewards, inputs.weights);
}

at::Tensor group_advantages(const at::Tensor& rewards,
                            const at::Tensor& weights,
                            const AdvantageOptions& options,
                            const at::Tensor& penalties) {
  validate(options);
  const auto inputs = checked(rewards, weights);
  if (options.aggregation == RewardAggregation::NormalizeThenSum) {
    TORCH_CHECK(!penalties.defined(),
                "[advantage] penalties are subtracted from the sum of the rewards, which "
                "normalize_then_sum does not compute");
    return normalize_then_sum(inputs, options).nan_to_num(0.0);
  }
  auto sums = weighted_sum(inputs.rewards, inputs.weights);
  if (options.reward_clip) {
    sums = sums.clamp(options.reward_clip->first, options.reward_clip->second);
  }
  if (penalties.defined()) {
    TORCH_CHECK(penalties.sizes() == sums.sizes(),
                "[advantage] expected a penalty for each of ",
                sums.size(0),
                " samples, found ",
                penalties.sizes());
    sums = sums - penalties.detach().to(sums.options());
  }
  return estimate(sums, options).nan_to_num(0.0);
}

GroupSignal group_signal(const at::Tensor& combined,
                         int64_t group_size,
                         std::optional<std::pair<double, double>> means_between) {
  TORCH_CHECK(combined.defined() && combined.dim() == 1 && group_size > 0,
              "[advantage] expected combined rewards (N) and a positive group size");
  const auto groups = in_groups(upcast(combined.detach()).contiguous(), group_size);
  const auto means = groups.nanmean(1);
  auto has_signal = rewards_differ(groups).squeeze(1);
  if (means_between) {
    TORCH_CHECK(means_between->first < means_between->second,
                "[advantage] the range of means to keep is empty: (",
                means_between->first,
                ", ",
                means_between->second,
                ")");
    has_signal = has_signal & (means > means_between->first) & (means < means_between->second);
  }
  return {
      .means = means, .deviations = deviation(groups, {1}).squeeze(1), .has_signal = has_signal};
}

}  // namespace reprise
