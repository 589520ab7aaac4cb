// Options of policy losses: their names, and which go with which.
#include "support/bitwise.h"

#include <reprise/loss/policy_gradient.h>

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace reprise {
namespace {

using enum PolicyLoss;
using testing::contains;
using testing::message_of;

TEST(PolicyNames, AreReadAndWrittenAlike) {
  for (int i = 0; i <= static_cast<int>(Rloo); ++i) {
    const auto loss = static_cast<PolicyLoss>(i);
    EXPECT_EQ(parse_policy_loss(name_of(loss)), loss) << name_of(loss);
  }
  EXPECT_EQ(parse_ratio_level("sequence"), RatioLevel::Sequence);
  EXPECT_EQ(parse_mismatch_correction("tis"), MismatchCorrection::TokenTruncate);
  EXPECT_EQ(parse_mismatch_correction("icepop"), MismatchCorrection::TokenMask);
  EXPECT_EQ(parse_mismatch_correction("seq-mask-tis"), MismatchCorrection::GeometricMask);
  EXPECT_EQ(parse_mismatch_correction("sequence_mask"), MismatchCorrection::SequenceMask);
}

TEST(PolicyNames, ThatAreUnknownAreRefusedWithThoseThereAre) {
  EXPECT_TRUE(contains(message_of<c10::Error>([] { parse_policy_loss("gspo"); }), "vespo"));
  EXPECT_TRUE(contains(message_of<c10::Error>([] { parse_ratio_level("turn"); }), "sequence"));
  EXPECT_TRUE(
      contains(message_of<c10::Error>([] { parse_mismatch_correction("clip"); }), "icepop"));
}

TEST(PolicyOptions, ThatMeanSomethingAreAccepted) {
  const std::vector<PolicyOptions> accepted = {
      {},
      {.loss = Grpo, .level = RatioLevel::Sequence, .epsilon = 3e-4, .epsilon_high = 4e-4},
      {.loss = Dapo, .epsilon_high = 0.28, .delta = 1.5},
      {.loss = Cispo, .epsilon_high = 5.0},
      {.loss = Cispo, .epsilon = 4.0},
      {.loss = Ppo, .dual_clip = 3.0},
      {.beta = 0.1, .kl = KlEstimator::K2, .kl_clamp = 10.0, .kl_bias_correction = false},
      {.loss = Sapo, .sapo_temperature_negative = 2.0},
      {.loss = Vespo,
       .vespo_k_positive = 0.0,
       .mismatch = MismatchCorrection::TokenMask,
       .mismatch_greatest = 2.0},
      {.entropy_coef = 0.01, .top_entropy_quantile = 0.2},
      {.loss = Rloo, .off_policy_threshold = 0.0},
      {.mismatch = MismatchCorrection::SequenceMask, .mismatch_least = 0.5},
  };
  for (size_t i = 0; i < accepted.size(); ++i) {
    EXPECT_NO_THROW(validate(accepted[i])) << i;
  }
}

TEST(PolicyOptions, WithoutEffectOrMeaningAreRefusedWithTheReason) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto truncate = MismatchCorrection::TokenTruncate;
  const std::vector<std::pair<PolicyOptions, std::string>> refused = {
      {{.epsilon = 0}, "epsilon must be positive"},
      {{.epsilon = 1}, "below 1"},
      {{.epsilon_high = nan}, "epsilon_high"},
      {{.loss = Sapo, .epsilon = 0.1}, "epsilon has no effect on sapo"},
      {{.loss = Vespo, .epsilon_high = 0.3}, "epsilon has no effect on vespo"},
      {{.loss = Cispo, .epsilon = 0.1, .epsilon_high = 5.0}, "epsilon has no effect on cispo"},
      {{.delta = 1.2}, "above 1 + epsilon_high"},
      {{.loss = Ppo, .delta = 2.0}, "dual_clip"},
      {{.loss = Cispo, .delta = 2.0}, "delta has no effect"},
      {{.loss = Grpo, .dual_clip = 3.0}, "have delta"},
      {{.loss = Ppo, .dual_clip = 1.0}, "above 1"},
      {{.loss = Vespo, .level = RatioLevel::Sequence}, "already"},
      {{.loss = Rloo, .level = RatioLevel::Sequence}, "already"},
      {{.loss = Ppo, .level = RatioLevel::Sequence}, "use grpo"},
      {{.beta = -0.1}, "beta"},
      {{.loss = Rloo, .beta = 0.1}, "in the reward"},
      {{.kl = KlEstimator::K1}, "Set beta"},
      {{.kl_clamp = 10.0}, "Set beta"},
      {{.kl_bias_correction = false}, "Set beta"},
      {{.beta = 0.1, .kl_clamp = 0.0}, "kl_clamp"},
      {{.sapo_temperature_positive = 2.0}, "It is for sapo"},
      {{.loss = Sapo, .sapo_temperature_positive = 0.0}, "sapo_temperature_pos"},
      {{.vespo_lambda_negative = 1.0}, "It is for vespo"},
      {{.loss = Vespo, .vespo_lambda_positive = 0.0}, "vespo_lambda_pos"},
      {{.loss = Vespo, .vespo_k_negative = -1.0}, "vespo_k_neg"},
      {{.entropy_coef = -0.1}, "entropy_coef"},
      {{.top_entropy_quantile = 0.0}, "(0, 1]"},
      {{.loss = Rloo, .top_entropy_quantile = 0.5}, "per sequence"},
      {{.off_policy_threshold = -1.0}, "off_policy_mask_threshold"},
      {{.mismatch_greatest = 2.0}, "without a correction"},
      {{.mismatch = truncate}, "needs a range"},
      {{.mismatch = truncate, .mismatch_least = 2.0, .mismatch_greatest = 1.0},
       "the lower one must be below"},
      {{.mismatch = truncate, .mismatch_least = -1.0}, "not be negative"},
      {{.loss = Rloo, .mismatch = truncate, .mismatch_greatest = 2.0}, "as old"},
      {{.loss = Vespo, .mismatch = MismatchCorrection::SequenceMask, .mismatch_greatest = 2.0},
       "token_truncate or token_mask"},
  };
  for (const auto& [options, reason] : refused) {
    EXPECT_TRUE(
        contains(message_of<c10::Error>([&options = options] { validate(options); }), reason));
  }
}

TEST(PolicyOptions, SayWhatTheLossNeeds) {
  EXPECT_FALSE(needs_reference(PolicyOptions{}) || needs_entropy(PolicyOptions{}) ||
               needs_sampling(PolicyOptions{}));
  EXPECT_TRUE(needs_reference(PolicyOptions{.beta = 0.1}));
  EXPECT_TRUE(needs_entropy(PolicyOptions{.entropy_coef = 0.1}));
  EXPECT_TRUE(needs_entropy(PolicyOptions{.top_entropy_quantile = 0.5}));
  EXPECT_TRUE(needs_sampling(PolicyOptions{.mismatch = MismatchCorrection::TokenMask}));
}

}  // namespace
}  // namespace reprise
