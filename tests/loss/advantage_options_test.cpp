// Options of group advantages: their names, and which go with which.
#include "loss/group_estimators.h"
#include "support/bitwise.h"

#include <reprise/loss/advantage.h>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace reprise {
namespace {

using testing::contains;
using testing::message_of;
using testing::parse_group_estimator;

TEST(AdvantageNames, AreKnownOrRefusedWithThoseThereAre) {
  EXPECT_EQ(parse_group_estimator("group_norm"), GroupEstimator::Grpo);
  EXPECT_EQ(name_of(GroupEstimator::Grpo), "grpo");
  EXPECT_EQ(parse_group_estimator("rloo"), GroupEstimator::Rloo);
  EXPECT_EQ(parse_reward_scale("batch"), RewardScale::Batch);
  EXPECT_EQ(parse_reward_aggregation("normalize_then_sum"), RewardAggregation::NormalizeThenSum);
  EXPECT_TRUE(contains(message_of<c10::Error>([] { parse_group_estimator("gae"); }), "rloo"));
  EXPECT_TRUE(contains(message_of<c10::Error>([] { parse_reward_scale("std"); }), "none"));
  EXPECT_TRUE(contains(message_of<c10::Error>([] { parse_reward_aggregation("sum"); }),
                       "sum_then_normalize"));
}

TEST(AdvantageOptions, OfAGroupOfOneAreRefusedByName) {
  for (const auto estimator :
       {GroupEstimator::Grpo, GroupEstimator::Rloo, GroupEstimator::ReinforceBaseline}) {
    const auto message = message_of<c10::Error>(
        [&] { validate(AdvantageOptions{.estimator = estimator, .group_size = 1}); });
    EXPECT_TRUE(contains(message, "train on nothing"));
    EXPECT_TRUE(contains(message, std::string(name_of(estimator))));
  }
}

TEST(AdvantageOptions, ThatMeanSomethingAreAccepted) {
  const std::vector<AdvantageOptions> accepted = {
      {},
      {.scale = RewardScale::Batch, .epsilon = 1e-9},
      {.scale = RewardScale::None, .reward_clip = {{-1, 1}}},
      {.aggregation = RewardAggregation::NormalizeThenSum, .epsilon = 0},
      {.estimator = GroupEstimator::Rloo, .epsilon = 1e-6, .normalize_advantages = true},
      {.estimator = GroupEstimator::ReinforceBaseline, .group_size = 2},
  };
  for (size_t i = 0; i < accepted.size(); ++i) {
    EXPECT_NO_THROW(validate(accepted[i])) << i;
  }
}

TEST(AdvantageOptions, WithoutEffectOrMeaningAreRefusedWithTheReason) {
  using enum GroupEstimator;
  const auto apart = RewardAggregation::NormalizeThenSum;
  const std::vector<std::pair<AdvantageOptions, std::string>> refused = {
      {{.epsilon = -1}, "epsilon must not be negative"},
      {{.scale = RewardScale::None, .epsilon = 1e-9}, "epsilon has no effect on grpo without"},
      {{.estimator = Rloo, .epsilon = 1e-9}, "epsilon has no effect on rloo"},
      {{.estimator = Rloo, .scale = RewardScale::None}, "scale_rewards has no effect"},
      {{.estimator = ReinforceBaseline, .aggregation = apart}, "multi_objective_aggregation"},
      {{.normalize_advantages = true}, "normalize_advantages has no effect on grpo"},
      {{.scale = RewardScale::Batch, .aggregation = apart}, "scale_rewards cannot change this"},
      {{.aggregation = apart, .reward_clip = {{-1, 1}}}, "reward_clip clips the sum"},
      {{.reward_clip = {{1, 1}}}, "must be a range"},
  };
  for (const auto& [options, reason] : refused) {
    EXPECT_TRUE(
        contains(message_of<c10::Error>([&options = options] { validate(options); }), reason));
  }
}

}  // namespace
}  // namespace reprise
