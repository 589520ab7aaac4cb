// The loss of reward models: against TRL and OpenRLHF; and the moments of rewards.
#include "loss/loss_fixture.h"
#include "support/bitwise.h"
#include "support/tensors.h"

#include <reprise/loss/reward.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace reprise {
namespace {

using testing::contains;
using testing::message_of;

TEST(Reward, EqualsThePeersInEveryCase) {
  const testing::LossFixture fixture("reward");
  ASSERT_EQ(fixture.cases().size(), 6U);
  for (const auto& [name, settings] : fixture.cases().items()) {
    const RewardOptions options{.loss = parse_reward_loss(settings.at("loss").get<std::string>()),
                                .centering = settings.value("centering", 0.0)};
    const auto rewards = fixture.leaf("rewards");
    const auto pair = rewards.chunk(2);
    const auto margin = settings.contains("margin") ? fixture["margin"] : at::Tensor();
    const auto result = reward_loss(pair[0], pair[1], margin, options);
    fixture.expect_loss_and_gradient(name, result.loss, rewards);
    if (fixture.has(name + ".logged")) {
      fixture.expect_equal(at::stack({result.accuracy, result.margin}), name + ".logged");
    }
  }
}

TEST(Reward, StaysFiniteWhereTheExponentialOverflows) {
  const auto chosen = torch::tensor({-500.0F}).requires_grad_();
  const auto result =
      reward_loss(chosen, torch::tensor({500.0F}), {}, {.loss = RewardLoss::LogExp});
  EXPECT_EQ(result.loss.item<float>(), 1000);
  result.loss.backward();
  EXPECT_EQ(chosen.grad().item<float>(), -1);
}

TEST(Reward, CountsATieAsWrong) {
  const auto same = torch::tensor({1.0F, 2.0F});
  EXPECT_EQ(reward_loss(same, same).accuracy.item<float>(), 0);
}

TEST(Reward, ComputesInFloat32WhateverComesIn) {
  const auto coarse = torch::tensor({1.0, 0.25}).to(at::kBFloat16);
  EXPECT_EQ(reward_loss(coarse, coarse).loss.scalar_type(), at::kFloat);
}

TEST(Reward, RefusesWhatItCannotCompute) {
  const auto rewards = torch::tensor({1.0F, 2.0F});
  const auto refusal = [](auto fn) { return message_of<c10::Error>(fn); };
  EXPECT_TRUE(contains(
      refusal([&] { reward_loss(rewards, rewards, rewards, {.loss = RewardLoss::LogExp}); }),
      "no margin"));
  EXPECT_TRUE(contains(refusal([&] { reward_loss(rewards, rewards, {}, {.centering = -1}); }),
                       "centering"));
  EXPECT_TRUE(contains(refusal([&] { reward_loss(rewards, rewards.slice(0, 1)); }), "(B) each"));
  EXPECT_TRUE(contains(refusal([&] { reward_loss(rewards, rewards, rewards.slice(0, 1)); }),
                       "margin for each"));
  EXPECT_TRUE(contains(refusal([] { parse_reward_loss("hinge"); }), "logexp"));
}

TEST(RewardMoments, AreThoseOfAllRewardsHoweverTheyWereCut) {
  const auto rewards = 1e4 + torch::randn({1000}, at::kDouble);
  RewardMoments whole, first, second;
  whole.add(rewards);
  for (const auto& piece : rewards.split(37)) {
    (piece.size(0) == 37 ? first : second).add(piece);
  }
  RewardMoments merged = first;
  merged.add(second);
  merged.add(RewardMoments());
  for (const auto& moments : {whole, merged}) {
    EXPECT_EQ(moments.count, 1000);
    EXPECT_NEAR(moments.mean, rewards.mean().item<double>(), 1e-9);
    EXPECT_NEAR(moments.deviation(), rewards.std().item<double>(), 1e-9);
  }
}

TEST(RewardMoments, CanBeDividedByWhenAllRewardsAreEqual) {
  RewardMoments moments;
  moments.add(torch::full({5}, 3.0F));
  EXPECT_EQ(moments.deviation(), 1e-8);
}

TEST(RewardMoments, OfOneRewardHaveNoDeviation) {
  RewardMoments moments;
  moments.add(torch::tensor({3.0F}));
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { moments.deviation(); }), "at least two"));
}

}  // namespace
}  // namespace reprise
