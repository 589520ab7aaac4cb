// Rewards, returns and advantages of tokens: against OpenRLHF, TRL and ColossalChat, and GAE
// against a naive double loop.
#include "loss/group_estimators.h"
#include "loss/loss_fixture.h"
#include "loss/stop_penalty.h"
#include "support/bitwise.h"
#include "support/nan.h"
#include "support/tensors.h"

#include <reprise/loss/advantage.h>
#include <reprise/loss/kl.h>
#include <reprise/loss/returns.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

namespace reprise {
namespace {

using testing::bitwise_equal;
using testing::contains;
using testing::kNaN;
using testing::message_of;
using testing::parse_group_estimator;
using testing::with_stop_penalty;

class TokenAdvantage : public ::testing::Test {
 protected:
  /// The scores after OpenRLHF's baseline, if the case has one.
  at::Tensor shaped_scores(const Json& settings) const {
    if (!settings.contains("estimator")) {
      return fixture_["scores"];
    }
    const AdvantageOptions options{
        .estimator = parse_group_estimator(settings.at("estimator").get<std::string>()),
        .group_size = 3,
        .scale = parse_reward_scale(settings.value("scale", std::string("group"))),
        .epsilon = settings.value("epsilon", 1e-4)};
    return group_advantages(fixture_["scores"].unsqueeze(1), torch::ones({1}), options);
  }

  AdvantagesAndReturns run(const Json& settings) const {
    const auto mask = fixture_["mask"];
    const auto rewards = token_rewards(
        shaped_scores(settings),
        kl_estimate(fixture_["token.logprobs"], fixture_["token.reference"], KlEstimator::K1, 10),
        mask,
        {.kl_coef = 0.1, .score_clip = {{-10, 10}}});
    const double gamma = settings.value("gamma", 1.0);
    AdvantagesAndReturns found;
    if (settings.contains("lambda")) {
      found = generalized_advantages(
          fixture_["values"], rewards, mask, gamma, settings.at("lambda").get<double>());
    } else {
      found.returns = discounted_returns(rewards, mask, gamma);
      found.advantages = found.returns;
    }
    if (settings.contains("whitening")) {
      const bool is_full = settings.at("whitening") == "std";
      found.advantages =
          whitened(found.advantages, mask, is_full ? Whitening::OpenRlhf : Whitening::MeanOnly);
    }
    return found;
  }

  testing::LossFixture fixture_{"advantage"};
};

TEST_F(TokenAdvantage, EqualsOpenRlhfInEveryCase) {
  const auto mask = fixture_["mask"];
  int compared = 0;
  for (const auto& [name, settings] : fixture_.cases().items()) {
    if (!name.starts_with("openrlhf")) {
      continue;
    }
    const auto found = run(settings);
    // OpenRLHF leaves something behind the end, which its losses do not see.
    for (const auto& [tensor, stored] :
         {std::pair{found.advantages, name + ".advantages"}, {found.returns, name + ".returns"}}) {
      EXPECT_LT(testing::relative_error(tensor, fixture_[stored] * mask), 1e-6) << stored;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 7);
}

TEST_F(TokenAdvantage, HasOpenRlhfsEstimatesOfTheKl) {
  const auto logprobs = fixture_["token.logprobs"], reference = fixture_["token.reference"];
  for (const auto& [name, estimator] : {std::pair{"k1", KlEstimator::K1},
                                        std::pair{"k2", KlEstimator::K2},
                                        std::pair{"k3", KlEstimator::K3}}) {
    EXPECT_EQ(parse_kl_estimator(name), estimator);
    fixture_.expect_equal(kl_estimate(logprobs, reference, estimator, 10),
                          "kl." + std::string(name));
    EXPECT_TRUE(bitwise_equal(kl_estimate(logprobs, logprobs, estimator), torch::zeros({6, 7})));
  }
  EXPECT_EQ(fixture_["kl.k3"].max().item<float>(), 10) << "the case must reach the bound";
  EXPECT_GT(kl_estimate(logprobs, reference, KlEstimator::K3).max().item<float>(), 10);
}

TEST_F(TokenAdvantage, GivesEveryTokenTheScoreInColossalChatsWay) {
  const TokenRewardOptions options{
      .kl_coef = 0.1, .place = parse_score_place("every_token"), .score_clip = {{-5, 5}}};
  const auto kl =
      kl_estimate(fixture_["token.logprobs"], fixture_["token.reference"], KlEstimator::K1);
  fixture_.expect_equal(token_rewards(fixture_["scores"], kl, fixture_["mask"], options),
                        "colossalchat.rewards");
}

TEST_F(TokenAdvantage, WhitensAsTrlDoes) {
  const auto values = fixture_["values"], mask = fixture_["mask"];
  fixture_.expect_equal(whitened(values, mask, Whitening::Trl), "trl_whitened");
  fixture_.expect_equal(whitened(values, mask, Whitening::Trl, true), "trl_whitened_mean");
}

TEST_F(TokenAdvantage, PenalizesLengthAsOpenRlhfDoes) {
  const auto scores = fixture_["scores"], is_finished = fixture_["is_finished"];
  const OverlongPenalty overlong{.max_length = 10, .buffer = 4, .factor = 0.7};
  fixture_.expect_equal(with_overlong_penalty(scores, fixture_["lengths"], overlong), "overlong");
  fixture_.expect_equal(with_stop_penalty(scores, is_finished, 0.3), "stop.scaled");
  fixture_.expect_equal(with_stop_penalty(scores, is_finished, -0.5), "stop.fixed");
}

TEST_F(TokenAdvantage, LosesAFixedAmountForAMissingEnd) {
  const auto found =
      with_missing_eos_penalty(torch::tensor({1.0F, 2.0F}), torch::tensor({true, false}), 0.5);
  EXPECT_TRUE(bitwise_equal(found, torch::tensor({1.0F, 1.5F})));
}

// Advantages written out: the sum over later tokens of their errors, each discounted.
TEST(GeneralizedAdvantages, EqualADoubleLoopForUnevenLengths) {
  const int64_t lengths[] = {9, 4, 1, 0};
  const double gamma = 0.97, lambda = 0.9;
  const auto values = torch::randn({4, 9}, at::kDouble),
             rewards = torch::randn({4, 9}, at::kDouble);
  const auto mask = torch::arange(9) < torch::tensor({9, 4, 1, 0}).unsqueeze(1);
  const auto found = generalized_advantages(values, rewards, mask, gamma, lambda);
  for (int64_t row = 0; row < 4; ++row) {
    const auto value = [&](int64_t t) {
      return t < lengths[row] ? values[row][t].item<double>() : 0.0;
    };
    for (int64_t t = 0; t < 9; ++t) {
      double expected = 0;
      for (int64_t later = t; later < lengths[row]; ++later) {
        const double error =
            rewards[row][later].item<double>() + gamma * value(later + 1) - value(later);
        expected += std::pow(gamma * lambda, static_cast<double>(later - t)) * error;
      }
      EXPECT_NEAR(found.advantages[row][t].item<double>(), expected, 1e-12) << row << ' ' << t;
      EXPECT_NEAR(found.returns[row][t].item<double>(), expected + value(t), 1e-12);
    }
  }
}

TEST(GeneralizedAdvantages, AreReturnsMinusValuesWhenNothingIsForgotten) {
  const auto values = torch::randn({3, 5}, at::kDouble),
             rewards = torch::randn({3, 5}, at::kDouble);
  const auto mask = torch::ones({3, 5}, at::kBool);
  const auto found = generalized_advantages(values, rewards, mask, 0.9, 1.0);
  EXPECT_LT(testing::relative_error(found.returns, discounted_returns(rewards, mask, 0.9)), 1e-12);
}

TEST(TokenRewards, DoNotSeeWhatStandsBehindTheEndNorARowThatDoesNotCount) {
  const auto mask = torch::tensor({{1, 1, 0}, {0, 0, 0}});
  const auto kl = torch::tensor({{1.0F, 2.0F, kNaN}, {kNaN, kNaN, kNaN}});
  const auto scores = torch::tensor({10.0F, kNaN});
  const auto rewards = token_rewards(scores, kl, mask, {.kl_coef = 0.5});
  EXPECT_TRUE(
      bitwise_equal(rewards, torch::tensor({{-0.5F, 9.0F, 0.0F}, {-0.0F, -0.0F, -0.0F}}) + 0));
  const auto found = generalized_advantages(kl, rewards, mask, 1.0, 0.95);
  EXPECT_TRUE(at::isfinite(found.advantages).all().item<bool>());
  EXPECT_TRUE(at::isfinite(whitened(kl, mask, Whitening::Trl, true)).all().item<bool>());
  EXPECT_TRUE(at::isfinite(discounted_returns(kl, mask, 0.9)).all().item<bool>());
}

TEST(TokenRewards, NeedNoKlWithoutACoefficient) {
  const auto rewards =
      token_rewards(torch::tensor({2.0F}), at::Tensor(), torch::tensor({{1, 1}}), {});
  EXPECT_TRUE(bitwise_equal(rewards, torch::tensor({{0.0F, 2.0F}})));
}

TEST(Whitened, OfOneTokenOrNoneIsFinite) {
  const auto values = torch::tensor({{3.0F, 4.0F}});
  for (const auto& mask : {torch::tensor({{1, 0}}), torch::tensor({{0, 0}})}) {
    for (const auto whitening : {Whitening::OpenRlhf, Whitening::Trl, Whitening::MeanOnly}) {
      EXPECT_TRUE(bitwise_equal(whitened(values, mask, whitening), torch::zeros({1, 2})));
    }
  }
}

TEST_F(TokenAdvantage, HasOpenRlhfsControllerOfTheKl) {
  const auto expected = fixture_["controller"];
  AdaptiveKl controller{.value = 0.02, .target = 6.0, .horizon = 1000};
  controller.validate();
  int i = 0;
  for (const double divergence : {1.0, 5.9, 6.5, 30.0}) {
    controller.update(divergence, 64);
    EXPECT_NEAR(controller.value, expected[i++].item<double>(), 1e-15);
  }
  const double before = controller.value;
  controller.update(kNaN, 64);
  EXPECT_EQ(controller.value, before) << "a coefficient of NaN would never recover";
}

TEST(TokenAdvantageOptions, OutOfRangeAreRefusedByName) {
  const auto refusal = [](auto fn) { return message_of<c10::Error>(fn); };
  const auto x = torch::zeros({2, 3}), mask = torch::ones({2, 3});
  const auto scores = torch::zeros({2});
  EXPECT_TRUE(contains(refusal([&] { generalized_advantages(x, x, mask, 1.1, 1); }), "gamma"));
  EXPECT_TRUE(contains(refusal([&] { generalized_advantages(x, x, mask, 1, -1); }), "lambda"));
  EXPECT_TRUE(contains(refusal([&] { discounted_returns(x.slice(1, 1), mask, 1); }), "rewards"));
  EXPECT_TRUE(
      contains(refusal([&] { token_rewards(scores, x, mask, {.kl_coef = -1}); }), "kl_coef"));
  EXPECT_TRUE(
      contains(refusal([&] { token_rewards(scores, at::Tensor(), mask, {.kl_coef = 1}); }), "KL"));
  EXPECT_TRUE(contains(refusal([&] {
                         token_rewards(scores, x, mask, {.score_clip = {{2, 1}}});
                       }),
                       "score_clip"));
  EXPECT_TRUE(contains(refusal([&] { with_stop_penalty(scores, scores, 2); }), "[0, 1]"));
  EXPECT_TRUE(
      contains(refusal([&] { with_missing_eos_penalty(scores, scores, -1); }), "subtracted"));
  EXPECT_TRUE(contains(
      refusal([&] { with_overlong_penalty(scores, scores, {.max_length = 4, .buffer = 5}); }),
      "buffer"));
  EXPECT_TRUE(contains(refusal([&] { whitened(x, mask, Whitening::MeanOnly, true); }), "nothing"));
  EXPECT_TRUE(contains(refusal([] { parse_kl_estimator("k4"); }), "k3"));
  EXPECT_TRUE(contains(refusal([] { parse_score_place("first"); }), "every_token"));
  EXPECT_TRUE(
      contains(refusal([] { AdaptiveKl{.value = 0.1, .target = 0}.validate(); }), "target"));
}

}  // namespace
}  // namespace reprise
