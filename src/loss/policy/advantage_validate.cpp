// Names of the group estimators, and which options each of them supports.
#include <reprise/loss/advantage.h>

#include "loss/enum_names.h"

#include <c10/util/Exception.h>

#include <array>
#include <cmath>

namespace reprise {

namespace {

constexpr std::array<EnumName<GroupEstimator>, 3> kGroupEstimators = {
    {{"grpo", GroupEstimator::Grpo},
     {"rloo", GroupEstimator::Rloo},
     {"reinforce_baseline", GroupEstimator::ReinforceBaseline}}};

constexpr std::array<EnumName<RewardScale>, 3> kScales = {
    {{"group", RewardScale::Group}, {"batch", RewardScale::Batch}, {"none", RewardScale::None}}};

constexpr std::array<EnumName<RewardAggregation>, 2> kAggregations = {
    {{"sum_then_normalize", RewardAggregation::SumThenNormalize},
     {"normalize_then_sum", RewardAggregation::NormalizeThenSum}}};

bool divides(const AdvantageOptions& options) {
  return (options.estimator == GroupEstimator::Grpo && options.scale != RewardScale::None) ||
         options.normalize_advantages;
}

void check_effect(const AdvantageOptions& options, bool is_wrong, const char* option) {
  TORCH_CHECK(!is_wrong,
              "[advantage] ",
              option,
              " has no effect on ",
              name_of(options.estimator),
              options.scale == RewardScale::None ? " without scaling" : "");
}

void check_effects(const AdvantageOptions& options) {
  const AdvantageOptions defaults;
  const bool is_grpo = options.estimator == GroupEstimator::Grpo;
  const bool sums_first = options.aggregation == RewardAggregation::SumThenNormalize;
  check_effect(options, !is_grpo && options.scale != defaults.scale, "scale_rewards");
  check_effect(options, !is_grpo && !sums_first, "multi_objective_aggregation");
  check_effect(options, options.epsilon != defaults.epsilon && !divides(options), "epsilon");
  check_effect(options,
               options.normalize_advantages && options.estimator != GroupEstimator::Rloo,
               "normalize_advantages");
  TORCH_CHECK(sums_first || options.scale == RewardScale::Group,
              "[advantage] normalize_then_sum scales each reward by its standard deviation in the "
              "group and their sum by that of the batch; scale_rewards cannot change this");
  TORCH_CHECK(sums_first || !options.reward_clip,
              "[advantage] reward_clip clips the sum of the rewards, which normalize_then_sum does "
              "not compute");
}

}  // namespace

RewardScale parse_reward_scale(std::string_view name) {
  return parse_enum<RewardScale>("scale_rewards", name, kScales);
}

RewardAggregation parse_reward_aggregation(std::string_view name) {
  return parse_enum<RewardAggregation>("multi_objective_aggregation", name, kAggregations);
}

std::string_view name_of(GroupEstimator estimator) {
  return enum_name<GroupEstimator>(estimator, kGroupEstimators);
}

void validate(const AdvantageOptions& options) {
  TORCH_CHECK(options.group_size > 1,
              "[advantage] ",
              name_of(options.estimator),
              " compares the completions of a prompt with each other; with ",
              options.group_size,
              " per prompt it would train on nothing. Sample at least 2");
  TORCH_CHECK(options.epsilon >= 0 && std::isfinite(options.epsilon),
              "[advantage] epsilon must not be negative, found ",
              options.epsilon);
  if (const auto& clip = options.reward_clip) {
    TORCH_CHECK(clip->first < clip->second,
                "[advantage] reward_clip must be a range, found [",
                clip->first,
                ", ",
                clip->second,
                "]");
  }
  check_effects(options);
}

}  // namespace reprise
