// Advantages of completions among those of the same prompt: against TRL, and their edges.
// OpenRLHF's are compared in advantage_tokens_test.cpp, where it makes them.
#include "loss/group_estimators.h"
#include "loss/loss_fixture.h"
#include "support/bitwise.h"
#include "support/nan.h"
#include "support/tensors.h"

#include <reprise/loss/advantage.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace reprise {
namespace {

using testing::bitwise_equal;
using testing::contains;
using testing::kNaN;
using testing::message_of;
using testing::parse_group_estimator;

AdvantageOptions advantage_options_of(const Json& settings) {
  AdvantageOptions options;
  options.group_size = 3;
  options.estimator = parse_group_estimator(settings.at("estimator").get<std::string>());
  options.scale = parse_reward_scale(settings.value("scale", std::string("group")));
  options.aggregation =
      parse_reward_aggregation(settings.value("aggregation", std::string("sum_then_normalize")));
  options.normalize_advantages = settings.value("normalize_advantages", false);
  if (settings.contains("reward_clip")) {
    options.reward_clip = {settings.at("reward_clip").at(0), settings.at("reward_clip").at(1)};
  }
  return options;
}

TEST(Advantage, EqualsTrlInEveryCase) {
  const testing::LossFixture fixture("advantage");
  int compared = 0;
  for (const auto& [name, settings] : fixture.cases().items()) {
    if (!name.starts_with("trl")) {
      continue;
    }
    const auto penalties = settings.contains("beta")
                               ? settings.at("beta").get<double>() * fixture["penalized_kl"]
                               : at::Tensor();
    const auto found = group_advantages(
        fixture["rewards"], fixture["weights"], advantage_options_of(settings), penalties);
    fixture.expect_equal(found, name + ".advantages");
    ++compared;
  }
  EXPECT_EQ(compared, 7);
}

TEST(Advantage, OfWhatNoSourceCanScoreIsExactlyZero) {
  const testing::LossFixture fixture("advantage");
  const auto rewards = fixture["rewards"];
  const auto unscorable = rewards.isnan().all(1);
  ASSERT_EQ(unscorable.sum().item<int64_t>(), 6);
  for (const auto& [name, settings] : fixture.cases().items()) {
    if (!name.starts_with("trl")) {
      continue;
    }
    const auto found =
        group_advantages(rewards, fixture["weights"], advantage_options_of(settings));
    EXPECT_TRUE(at::isfinite(found).all().item<bool>()) << name;
    EXPECT_EQ(found.masked_select(unscorable).abs().sum().item<float>(), 0) << name;
  }
}

TEST(Advantage, LeavesTheUnscorableOutOfTheBaselineOfItsGroup) {
  const auto rewards = torch::tensor({1.0F, kNaN, 2.0F, 6.0F}).unsqueeze(1);
  const auto weights = torch::ones({1});
  const AdvantageOptions mean{.group_size = 4, .scale = RewardScale::None};
  EXPECT_TRUE(bitwise_equal(group_advantages(rewards, weights, mean),
                            torch::tensor({-2.0F, 0.0F, -1.0F, 3.0F})));
  const AdvantageOptions rloo{.estimator = GroupEstimator::Rloo, .group_size = 4};
  EXPECT_TRUE(bitwise_equal(group_advantages(rewards, weights, rloo),
                            torch::tensor({-3.0F, 0.0F, -1.5F, 4.5F})));
}

// The mean of three times 0.1 is not 0.1 in float32; divided by 1e-9 the difference would count.
TEST(Advantage, OfEqualRewardsIsExactlyZeroWhateverEpsilon) {
  const auto rewards = torch::full({6, 1}, 0.1F);
  for (const auto scale : {RewardScale::Group, RewardScale::Batch}) {
    const AdvantageOptions options{.group_size = 3, .scale = scale, .epsilon = 1e-9};
    const auto found = group_advantages(rewards, torch::ones({1}), options);
    EXPECT_TRUE(bitwise_equal(found, torch::zeros({6})));
  }
}

TEST(Advantage, OfReinforceBaselineIsDrGrpos) {
  const auto rewards = torch::randn({8, 2});
  const auto weights = torch::tensor({0.3F, 2.0F});
  const AdvantageOptions a{.estimator = GroupEstimator::ReinforceBaseline, .group_size = 4};
  const AdvantageOptions b{.group_size = 4, .scale = RewardScale::None};
  EXPECT_TRUE(
      bitwise_equal(group_advantages(rewards, weights, a), group_advantages(rewards, weights, b)));
}

TEST(CombinedRewards, AreSumsOfTheSourcesThatCouldScore) {
  const auto rewards = torch::tensor({{1.0F, 2.0F}, {kNaN, 2.0F}, {1.0F, kNaN}, {kNaN, kNaN}});
  const auto found = combined_rewards(rewards, torch::tensor({2.0F, -1.0F}));
  EXPECT_TRUE(bitwise_equal(found.slice(0, 0, 3), torch::tensor({0.0F, -2.0F, 2.0F})));
  EXPECT_TRUE(std::isnan(found[3].item<float>()));
}

TEST(GroupSignal, IsInGroupsWithDifferentRewardsOnly) {
  const auto combined = torch::tensor({0.1F,
                                       0.1F,
                                       0.1F,  // all equal
                                       0.0F,
                                       1.0F,
                                       1.0F,  // two kinds
                                       5.0F,
                                       kNaN,
                                       kNaN,  // one scored
                                       kNaN,
                                       kNaN,
                                       kNaN,  // none scored
                                       kNaN,
                                       2.0F,
                                       3.0F});  // two scored
  const auto signal = group_signal(combined, 3);
  EXPECT_TRUE(bitwise_equal(signal.has_signal, torch::tensor({false, true, false, false, true})));
  EXPECT_NEAR(signal.means[1].item<float>(), 2.0 / 3, 1e-6);
  EXPECT_NEAR(signal.deviations[4].item<float>(), std::sqrt(0.5), 1e-6);
  EXPECT_TRUE(std::isnan(signal.means[3].item<float>()));
  EXPECT_TRUE(std::isnan(signal.deviations[2].item<float>()));
}

TEST(GroupSignal, IsAbsentWhereTheMeanIsNotStrictlyInside) {
  const auto combined = torch::tensor({0.0F, 1.0F, 0.5F, 1.5F, -0.5F, 0.5F});
  const auto signal = group_signal(combined, 2, {{0.0, 1.0}});
  EXPECT_TRUE(bitwise_equal(signal.has_signal, torch::tensor({true, false, false})));
}

TEST(AdvantageInputs, ThatDoNotFitAreRefusedByName) {
  const AdvantageOptions three{.group_size = 3};
  const auto refusal = [](auto fn) { return message_of<c10::Error>(fn); };
  const auto ones = torch::ones({1});
  EXPECT_TRUE(contains(refusal([&] {
                         group_advantages(torch::rand({7, 1}), ones, three);
                       }),
                       "whole groups of 3"));
  EXPECT_TRUE(
      contains(refusal([&] { group_advantages(torch::rand({6}), ones, three); }), "(N, K)"));
  EXPECT_TRUE(contains(refusal([&] {
                         group_advantages(torch::rand({6, 2}), ones, three);
                       }),
                       "each of 2 reward sources"));
  EXPECT_TRUE(contains(refusal([&] {
                         group_advantages(torch::rand({6, 1}), ones, three, torch::rand({3}));
                       }),
                       "penalty"));
  const AdvantageOptions apart{.group_size = 3, .aggregation = RewardAggregation::NormalizeThenSum};
  EXPECT_TRUE(contains(refusal([&] {
                         group_advantages(torch::rand({6, 1}), ones, apart, torch::rand({6}));
                       }),
                       "normalize_then_sum"));
  EXPECT_TRUE(contains(refusal([&] { group_signal(torch::rand({6}), 3, {{1.0, 1.0}}); }), "range"));
}

}  // namespace
}  // namespace reprise
