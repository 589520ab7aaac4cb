// Preference losses: against TRL, OpenRLHF and the authors of DPO, and what those cannot tell.
#include "loss/loss_fixture.h"
#include "support/bitwise.h"
#include "support/tensors.h"

#include <reprise/loss/preference.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

namespace reprise {
namespace {

using testing::bitwise_equal;
using testing::contains;
using testing::message_of;

PreferenceOptions preference_options_of(const Json& settings) {
  PreferenceOptions options;
  options.losses.clear();
  for (const auto& [name, weight] : settings.at("losses").items()) {
    options.losses.emplace_back(parse_preference_loss(name), weight.get<double>());
  }
  options.beta = settings.at("beta");
  options.label_smoothing = settings.value("label_smoothing", options.label_smoothing);
  options.discopop_tau = settings.value("discopop_tau", options.discopop_tau);
  options.f_divergence =
      parse_f_divergence(settings.value("f_divergence", std::string("reverse_kl")));
  options.f_alpha = settings.value("f_alpha", options.f_alpha);
  if (settings.contains("ld_alpha")) {
    options.ld_alpha = settings.at("ld_alpha").get<double>();
  }
  options.use_weighting = settings.value("use_weighting", false);
  options.simpo_gamma = settings.value("simpo_gamma", options.simpo_gamma);
  options.cpo_alpha = settings.value("cpo_alpha", options.cpo_alpha);
  options.alphapo_alpha = settings.value("alphapo_alpha", options.alphapo_alpha);
  options.nll_coef = settings.value("nll_coef", options.nll_coef);
  options.reference_free = settings.value("reference_free", false);
  return options;
}

class Preference : public ::testing::Test {
 protected:
  PairTokens policy_tokens(const at::Tensor& logps) const {
    return {logps, fixture_["mask"], fixture_["log_sum_p2"], fixture_["attended"]};
  }
  PairLogps reference(const PreferenceOptions& options) const {
    return reduce_pairs({fixture_["reference.logps"], fixture_["mask"]}, options);
  }
  PreferenceResult run(const at::Tensor& logps, const PreferenceOptions& options) const {
    return preference_loss(
        reduce_pairs(policy_tokens(logps), options), reference(options), options);
  }

  testing::LossFixture fixture_{"preference"};
};

TEST_F(Preference, EqualsThePeersInEveryCase) {
  ASSERT_EQ(fixture_.cases().size(), 42U);
  for (const auto& [name, settings] : fixture_.cases().items()) {
    const auto logps = fixture_.leaf("policy.logps");
    const auto result = run(logps, preference_options_of(settings));
    fixture_.expect_loss_and_gradient(name, result.loss, logps);
    if (fixture_.has(name + ".rewards")) {
      fixture_.expect_equal(
          at::stack({result.chosen_rewards.mean(), result.rejected_rewards.mean()}),
          name + ".rewards");
    }
    if (fixture_.has(name + ".log_odds")) {
      fixture_.expect_equal(result.log_odds, name + ".log_odds");
    }
  }
}

TEST_F(Preference, HasAPeerForEveryLossButOrpoToken) {
  std::set<PreferenceLoss> missing;
  for (int i = 0; i <= static_cast<int>(PreferenceLoss::OrpoToken); ++i) {
    missing.insert(static_cast<PreferenceLoss>(i));
  }
  for (const auto& settings : fixture_.cases()) {
    for (const auto& [loss, weight] : preference_options_of(settings).losses) {
      missing.erase(loss);
    }
  }
  EXPECT_EQ(missing, std::set<PreferenceLoss>{PreferenceLoss::OrpoToken});
}

// ColossalChat's formula, token by token.
TEST_F(Preference, OrpoTokenComparesMeansOfTheTokensLogOdds) {
  const auto logps = fixture_["policy.logps"].to(at::kDouble);
  const auto mask = fixture_["mask"], attended = fixture_["attended"];
  const int64_t rows = logps.size(0);
  double nll = 0, attended_tokens = 0, odds[2] = {0, 0}, tokens[2] = {0, 0};
  for (int64_t row = 0; row < rows; ++row) {
    const int side = row < rows / 2 ? 0 : 1;
    for (int64_t t = 0; t < logps.size(1); ++t) {
      const double p = logps[row][t].item<double>();
      if (side == 0 && attended[row][t].item<int64_t>() != 0) {
        nll -= p;
        attended_tokens += 1;
      }
      if (mask[row][t].item<int64_t>() != 0) {
        odds[side] += p - std::log(1.0001 - std::exp(p));
        tokens[side] += 1;
      }
    }
  }
  const double ratio = odds[0] / tokens[0] - odds[1] / tokens[1];
  const double expected = nll / attended_tokens + 0.3 * std::log1p(std::exp(-ratio));
  const PreferenceOptions options{.losses = {{PreferenceLoss::OrpoToken, 1.0}}, .beta = 0.3};
  const auto result = run(logps, options);
  EXPECT_NEAR(result.loss.item<double>(), expected, 1e-12);
  EXPECT_NEAR(result.log_odds.item<double>(), ratio, 1e-12);
}

TEST_F(Preference, OrpoTokenHasTheGradientOfItsValue) {
  const PreferenceOptions options{.losses = {{PreferenceLoss::OrpoToken, 1.0}}};
  const auto logps = fixture_["policy.logps"].to(at::kDouble).requires_grad_();
  run(logps, options).loss.backward();
  const double step = 1e-6;
  for (int64_t i = 0; i < logps.numel(); ++i) {
    const auto move = torch::zeros_like(logps).detach();
    move.view(-1)[i] = step;
    const auto slope =
        (run(logps.detach() + move, options).loss - run(logps.detach() - move, options).loss) /
        (2 * step);
    EXPECT_NEAR(logps.grad().view(-1)[i].item<double>(), slope.item<double>(), 1e-8) << i;
  }
}

TEST_F(Preference, HasLogRatiosOfExactlyZeroWhenPolicyAndReferenceAgree) {
  for (const auto& [name, settings] : fixture_.cases().items()) {
    const auto options = preference_options_of(settings);
    if (!needs_reference(options)) {
      continue;
    }
    const auto logps = fixture_["policy.logps"];
    const auto result = preference_loss(reduce_pairs(policy_tokens(logps), options),
                                        reduce_pairs({logps, fixture_["mask"]}, options),
                                        options);
    const auto zero = at::zeros_like(result.chosen_rewards);
    EXPECT_TRUE(bitwise_equal(result.chosen_rewards, zero)) << name;
    EXPECT_TRUE(bitwise_equal(result.rejected_rewards, zero)) << name;
  }
}

TEST_F(Preference, TakesAReferenceThatIsOnlySums) {
  for (const auto& [name, settings] : fixture_.cases().items()) {
    const auto options = preference_options_of(settings);
    const auto logps = fixture_["policy.logps"];
    const auto whole = reference(options);
    const auto result = preference_loss(reduce_pairs(policy_tokens(logps), options),
                                        {.chosen = whole.chosen, .rejected = whole.rejected},
                                        options);
    EXPECT_TRUE(bitwise_equal(result.loss, run(logps, options).loss)) << name;
  }
}

TEST_F(Preference, IsTheWeightedSumOfItsLosses) {
  const auto options = preference_options_of(fixture_.cases().at("mixed"));
  const auto result = run(fixture_["policy.logps"], options);
  ASSERT_EQ(result.losses.size(), options.losses.size());
  double sum = 0;
  for (size_t i = 0; i < result.losses.size(); ++i) {
    sum += options.losses[i].second * result.losses[i].item<double>();
  }
  EXPECT_NEAR(result.loss.item<double>(), sum, 1e-6);
}

TEST_F(Preference, DoesNotSeeWhatStandsOutsideTheResponses) {
  auto cases = fixture_.cases();
  cases["orpo_token"] = {{"losses", {{"orpo_token", 1.0}}}, {"beta", 0.3}};
  for (const auto& [name, settings] : cases.items()) {
    const auto options = preference_options_of(settings);
    const auto unseen = fixture_["attended"].eq(0);
    const auto logps = fixture_["policy.logps"];
    const auto dirty =
        logps.masked_fill(unseen, std::numeric_limits<float>::quiet_NaN()).requires_grad_();
    const auto result = run(dirty, options);
    EXPECT_TRUE(bitwise_equal(result.loss, run(logps, options).loss)) << name;
    result.loss.backward();
    EXPECT_TRUE(at::isfinite(dirty.grad()).all().item<bool>()) << name;
    EXPECT_EQ(dirty.grad().masked_select(unseen).abs().sum().item<float>(), 0) << name;
  }
}

TEST_F(Preference, ComputesInFloat32WhateverComesIn) {
  const auto options = preference_options_of(fixture_.cases().at("sigmoid"));
  const auto coarse = fixture_["policy.logps"].to(at::kBFloat16);
  const auto result = run(coarse, options);
  EXPECT_EQ(result.loss.scalar_type(), at::kFloat);
  EXPECT_TRUE(bitwise_equal(result.loss, run(coarse.to(at::kFloat), options).loss));
}

TEST_F(Preference, GivesRewardsWithoutGradient) {
  for (const auto* name : {"sigmoid", "simpo", "orpo", "openrlhf_nll"}) {
    const auto result =
        run(fixture_.leaf("policy.logps"), preference_options_of(fixture_.cases().at(name)));
    EXPECT_TRUE(result.loss.requires_grad());
    EXPECT_FALSE(result.chosen_rewards.requires_grad() || result.losses[0].requires_grad()) << name;
    EXPECT_FALSE(result.nll.defined() && result.nll.requires_grad()) << name;
  }
}

TEST(PreferenceTokens, CountLessBeyondTheShorterResponseOfThePairUnderLdAlpha) {
  const auto logps = torch::tensor({{-1.0, -2.0, -4.0}, {-8.0, -16.0, -32.0}});
  const auto mask = torch::tensor({{1, 1, 1}, {0, 1, 1}});
  PreferenceOptions options;
  options.ld_alpha = 0.5;
  const auto pairs = reduce_pairs({logps, mask}, options);
  EXPECT_EQ(pairs.chosen.item<float>(), -1 - 2 - 0.5F * 4);
  EXPECT_EQ(pairs.rejected.item<float>(), -16 - 32);
  EXPECT_EQ(pairs.chosen_lengths.item<float>(), 3);
  EXPECT_NEAR(pairs.token_nll.item<float>(), 7.0 / 3, 1e-6) << "the cross entropy is not weighted";
}

TEST(PreferenceTokens, OfAnEmptyResponseAreZeroNotNaN) {
  const auto logps = torch::tensor({{-1.0F, -2.0F}, {-3.0F, -4.0F}}).requires_grad_();
  const auto mask = torch::tensor({{0, 0}, {0, 1}});
  const PreferenceOptions options{
      .losses = {{PreferenceLoss::Ipo, 1.0}, {PreferenceLoss::Sft, 1.0}}, .nll_coef = 0.5};
  const auto pairs = reduce_pairs({logps, mask}, options);
  const auto result =
      preference_loss(pairs, reduce_pairs({logps.detach(), mask}, options), options);
  EXPECT_TRUE(std::isfinite(result.loss.item<float>()));
  result.loss.backward();
  EXPECT_TRUE(at::isfinite(logps.grad()).all().item<bool>());
}

TEST(Orpo, StaysFiniteForAResponseOfProbabilityOne) {
  const auto logps = torch::tensor({{0.0F, 0.0F}, {-1.0F, -2.0F}}).requires_grad_();
  const auto ones = torch::ones({2, 2}, at::kLong);
  const PreferenceOptions options{.losses = {{PreferenceLoss::Orpo, 1.0}}};
  const auto pairs = reduce_pairs({.logps = logps, .mask = ones, .attended = ones}, options);
  const auto result = preference_loss(pairs, {}, options);
  EXPECT_TRUE(std::isfinite(result.loss.item<float>()));
  result.loss.backward();
  EXPECT_TRUE(at::isfinite(logps.grad()).all().item<bool>());
}

TEST(PreferenceInputs, ThatDoNotFitAreRefusedByName) {
  const auto logps = -torch::rand({4, 3});
  const auto mask = torch::ones({4, 3}, at::kLong);
  const PreferenceOptions dpo;
  const auto refusal = [](auto fn) { return message_of<c10::Error>(fn); };
  EXPECT_TRUE(contains(refusal([&] {
                         reduce_pairs({logps.slice(0, 0, 3), mask}, dpo);
                       }),
                       "(2B, T)"));
  EXPECT_TRUE(contains(refusal([&] { reduce_pairs({logps, mask.slice(1, 1)}, dpo); }), "mask"));
  const auto pairs = reduce_pairs({logps, mask}, dpo);
  EXPECT_TRUE(contains(refusal([&] { preference_loss(pairs, {}, dpo); }), "reference"));
  const PairLogps too_few{.chosen = pairs.chosen.slice(0, 1), .rejected = pairs.rejected};
  EXPECT_TRUE(contains(refusal([&] { preference_loss(pairs, too_few, dpo); }), "reference"));
  EXPECT_TRUE(contains(refusal([&] { preference_loss(pairs, pairs, {.use_weighting = true}); }),
                       "log_sum_p2"));
  EXPECT_TRUE(contains(refusal([&] {
                         preference_loss(pairs, {}, {.losses = {{PreferenceLoss::Orpo, 1.0}}});
                       }),
                       "attended"));
}

}  // namespace
}  // namespace reprise
