// The loss of process reward models: against OpenRLHF and transformers' token classifier.
#include "loss/loss_fixture.h"
#include "support/bitwise.h"
#include "support/tensors.h"

#include "loss/preference/process_reward.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise {
namespace {

using testing::bitwise_equal;
using testing::contains;
using testing::message_of;

class ProcessReward : public ::testing::Test {
 protected:
  // As a trainer would: only the steps' logits are made.
  ProcessRewardResult run(const at::Tensor& hidden, const Json& settings) const {
    const LinearHead head{fixture_["head"]};
    const auto places = fixture_["labels"].ne(kIgnoredLabel);
    if (settings.contains("classes")) {
      return process_reward_loss(hidden.matmul(head.weight.slice(0, 0, 2).t()),
                                 fixture_["classes"]);
    }
    const auto tokens = settings.value("reward_tokens", std::vector<int64_t>{});
    const auto logits = step_logits(hidden, head, places, tokens);
    if (settings.contains("soft")) {
      return soft_process_reward_loss(logits, fixture_["soft_labels"].masked_select(places));
    }
    const auto labels = fixture_["labels"].masked_select(places);
    return process_reward_loss(logits,
                               tokens.empty() ? labels : reward_token_classes(labels, tokens));
  }

  testing::LossFixture fixture_{"process_reward"};
};

TEST_F(ProcessReward, EqualsThePeersInEveryCase) {
  ASSERT_EQ(fixture_.cases().size(), 4U);
  for (const auto& [name, settings] : fixture_.cases().items()) {
    const auto hidden = fixture_.leaf("hidden");
    const auto result = run(hidden, settings);
    fixture_.expect_loss_and_gradient(name, result.loss, hidden);
    fixture_.expect_equal(result.accuracy, name + ".accuracy");
    EXPECT_EQ(result.count.item<int64_t>(), 6) << name;
  }
}

TEST_F(ProcessReward, MakesTheSameLogitsForAFewTokensAsForAll) {
  const LinearHead head{.weight = fixture_["head"], .bias = torch::randn({11})};
  const auto places = fixture_["labels"].ne(kIgnoredLabel);
  const auto all = step_logits(fixture_["hidden"], head, places);
  EXPECT_EQ(all.sizes(), at::IntArrayRef({6, 11}));
  const auto few = step_logits(fixture_["hidden"], head, places, {7, 3});
  const auto picked = all.index_select(1, torch::tensor({int64_t{7}, int64_t{3}}));
  EXPECT_LT(testing::relative_error(few, picked), 1e-6);
}

TEST_F(ProcessReward, ComputesLogitsInFloat32WhenTheHeadAsksForIt) {
  const auto hidden = fixture_["hidden"].to(at::kBFloat16);
  const auto places = fixture_["labels"].ne(kIgnoredLabel);
  LinearHead head{.weight = fixture_["head"].to(at::kBFloat16), .in_float32 = true};
  const auto precise = step_logits(hidden, head, places);
  const LinearHead wide{.weight = head.weight.to(at::kFloat)};
  EXPECT_TRUE(bitwise_equal(precise, step_logits(hidden.to(at::kFloat), wide, places)));
  head.in_float32 = false;
  const auto coarse = step_logits(hidden, head, places);
  EXPECT_EQ(coarse.scalar_type(), at::kFloat);
  EXPECT_FALSE(at::equal(coarse, precise));
}

TEST(ProcessRewardLoss, IsZeroWithoutSteps) {
  const auto logits = torch::randn({2, 3, 2}).requires_grad_();
  const auto result = process_reward_loss(logits, torch::full({2, 3}, kIgnoredLabel));
  EXPECT_EQ(result.loss.item<float>(), 0);
  EXPECT_EQ(result.accuracy.item<float>(), 0);
  EXPECT_EQ(result.count.item<int64_t>(), 0);
  result.loss.backward();
  EXPECT_EQ(logits.grad().abs().sum().item<float>(), 0);
  EXPECT_EQ(soft_process_reward_loss(torch::zeros({0, 2}), torch::zeros({0})).loss.item<float>(),
            0);
}

TEST(ProcessRewardLoss, OfCertainSoftLabelsIsThatOfHardOnes) {
  const auto logits = torch::randn({4, 2});
  const auto classes = torch::tensor({int64_t{0}, int64_t{1}, int64_t{1}, int64_t{0}});
  const auto soft = soft_process_reward_loss(logits, classes.eq(0).to(at::kFloat));
  const auto hard = process_reward_loss(logits, classes);
  EXPECT_LT(testing::relative_error(soft.loss, hard.loss), 1e-6);
  EXPECT_TRUE(bitwise_equal(soft.accuracy, hard.accuracy));
}

TEST(RewardTokenClasses, KeepIgnoredLabelsAndTheOrderOfTheTokens) {
  const auto labels = torch::tensor({{int64_t{9}, kIgnoredLabel}, {int64_t{4}, int64_t{6}}});
  const auto classes = reward_token_classes(labels, {4, 9, 6});
  EXPECT_TRUE(
      at::equal(classes, torch::tensor({{int64_t{1}, kIgnoredLabel}, {int64_t{0}, int64_t{2}}})));
}

TEST(ProcessRewardInputs, ThatDoNotFitAreRefused) {
  const auto hidden = torch::randn({1, 2, 3});
  const LinearHead head{torch::randn({5, 3})};
  const auto places = torch::ones({1, 2}, at::kBool);
  const auto refusal = [](auto fn) { return message_of<c10::Error>(fn); };
  EXPECT_TRUE(contains(refusal([&] {
                         step_logits(hidden, head, places, {1, 5});
                       }),
                       "reward token 5 is not in the vocabulary of 5"));
  EXPECT_TRUE(contains(refusal([&] { step_logits(hidden, head, places.to(at::kLong)); }), "bool"));
  EXPECT_TRUE(contains(refusal([] {
                         reward_token_classes(torch::tensor({int64_t{4}, int64_t{8}}), {4, 6});
                       }),
                       "token 8"));
  EXPECT_TRUE(contains(refusal([] { reward_token_classes(torch::zeros({1}, at::kLong), {0}); }),
                       "two reward tokens"));
  EXPECT_TRUE(contains(refusal([] {
                         soft_process_reward_loss(torch::randn({2, 3}), torch::zeros({2}));
                       }),
                       "exactly two"));
  EXPECT_TRUE(contains(refusal([] {
                         process_reward_loss(torch::randn({2, 3}), torch::zeros({2}));
                       }),
                       "int64"));
}

}  // namespace
}  // namespace reprise
