// Options of preference losses: their names, and which go with which.
#include "support/bitwise.h"

#include <reprise/loss/preference.h>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace reprise {
namespace {

using enum PreferenceLoss;
using testing::contains;
using testing::message_of;

TEST(PreferenceNames, AreReadAndWrittenAlike) {
  for (int i = 0; i <= static_cast<int>(OrpoToken); ++i) {
    const auto loss = static_cast<PreferenceLoss>(i);
    EXPECT_EQ(parse_preference_loss(name_of(loss)), loss) << name_of(loss);
  }
  EXPECT_EQ(parse_preference_loss("dpo"), Sigmoid);
  EXPECT_EQ(name_of(Sigmoid), "sigmoid");
  EXPECT_EQ(parse_f_divergence("js_divergence"), FDivergence::Js);
  EXPECT_EQ(parse_f_divergence("alpha_divergence"), FDivergence::Alpha);
}

TEST(PreferenceNames, ThatAreUnknownAreRefusedWithThoseThereAre) {
  const auto loss = message_of<c10::Error>([] { parse_preference_loss("kto_pair"); });
  EXPECT_TRUE(contains(loss, "kto_pair"));
  EXPECT_TRUE(contains(loss, "sppo_hard"));
  EXPECT_TRUE(contains(message_of<c10::Error>([] { parse_f_divergence("kl"); }), "forward_kl"));
}

TEST(PreferenceOptions, ThatMeanSomethingAreAccepted) {
  const std::vector<PreferenceOptions> accepted = {
      {},
      {.label_smoothing = 0.1},
      {.losses = {{Sigmoid, 0.8}, {BcoPair, 0.2}, {Sft, 1.0}}, .label_smoothing = 0.1},
      {.losses = {{ExoPair, 1.0}}, .label_smoothing = 1e-3},
      {.losses = {{Robust, 1.0}}},
      {.losses = {{Hinge, 1.0}, {Sft, 1.0}}, .f_divergence = FDivergence::Js},
      {.f_divergence = FDivergence::Alpha, .f_alpha = 0.2},
      {.ld_alpha = 0.5, .use_weighting = true},
      {.losses = {{SimPo, 1.0}}, .label_smoothing = 0.1, .simpo_gamma = 1.0, .cpo_alpha = 0.0},
      {.losses = {{AlphaPo, 1.0}}, .alphapo_alpha = 0.25},
      {.losses = {{Cpo, 2.0}}},
      {.losses = {{AotUnpaired, 1.0}}, .reference_free = true},
      {.nll_coef = 0.2},
  };
  for (size_t i = 0; i < accepted.size(); ++i) {
    EXPECT_NO_THROW(validate(accepted[i])) << i;
  }
}

TEST(PreferenceOptions, WithoutEffectOrMeaningAreRefusedWithTheReason) {
  const std::vector<std::pair<PreferenceOptions, std::string>> refused = {
      {{.losses = {}}, "at least one loss"},
      {{.losses = {{Hinge, 0.0}}}, "weight of hinge"},
      {{.losses = {{Hinge, 1.0}, {Hinge, 1.0}}}, "twice"},
      {{.losses = {{Sigmoid, 1.0}, {Orpo, 1.0}}}, "complete objective"},
      {{.beta = 0}, "beta"},
      {{.label_smoothing = 0.5}, "[0, 0.5)"},
      {{.losses = {{Robust, 1.0}}, .label_smoothing = -0.1}, "[0, 0.5)"},
      {{.losses = {{Hinge, 1.0}, {Sft, 1.0}}, .label_smoothing = 0.1}, "no effect on hinge, sft"},
      {{.losses = {{SigmoidNorm, 1.0}}, .label_smoothing = 0.1}, "label_smoothing"},
      {{.losses = {{ExoPair, 1.0}}}, "logarithm"},
      {{.discopop_tau = 0.1}, "discopop_tau has no effect"},
      {{.losses = {{DiscoPop, 1.0}}, .discopop_tau = 0}, "discopop_tau must be positive"},
      {{.losses = {{Cpo, 1.0}}, .simpo_gamma = 1}, "simpo_gamma"},
      {{.losses = {{AlphaPo, 1.0}}, .cpo_alpha = 0.5}, "cpo_alpha"},
      {{.alphapo_alpha = 0.5}, "alphapo_alpha"},
      {{.losses = {{Orpo, 1.0}}, .nll_coef = 0.1}, "nll_coef"},
      {{.nll_coef = -1}, "nll_coef"},
      {{.f_alpha = 0.2}, "f_alpha"},
      {{.losses = {{NcaPair, 1.0}}, .f_divergence = FDivergence::Js}, "cancels"},
      {{.losses = {{Aot, 1.0}}, .f_divergence = FDivergence::ForwardKl}, "not defined for aot"},
      {{.losses = {{Sft, 1.0}}, .f_divergence = FDivergence::Js}, "f_divergence has no effect"},
      {{.losses = {{SimPo, 1.0}}, .f_divergence = FDivergence::Js}, "f_divergence has no effect"},
      {{.ld_alpha = 1.5}, "[0, 1]"},
      {{.losses = {{SimPo, 1.0}}, .ld_alpha = 0.5}, "ld_alpha has no effect"},
      {{.losses = {{Aot, 1.0}}, .use_weighting = true}, "sort"},
      {{.losses = {{Cpo, 1.0}}, .use_weighting = true}, "use_weighting"},
      {{.losses = {{SimPo, 1.0}}, .reference_free = true}, "reference_free has no effect"},
      {{.losses = {{BcoPair, 1.0}}, .reference_free = true}, "separately"},
      {{.f_divergence = FDivergence::Js, .reference_free = true}, "removes"},
  };
  for (const auto& [options, reason] : refused) {
    EXPECT_TRUE(
        contains(message_of<c10::Error>([&options = options] { validate(options); }), reason));
  }
}

TEST(PreferenceOptions, SayWhatTheLossesNeed) {
  EXPECT_TRUE(needs_reference(PreferenceOptions{}));
  EXPECT_FALSE(needs_reference(PreferenceOptions{.reference_free = true}));
  EXPECT_TRUE(needs_reference(PreferenceOptions{.losses = {{Sft, 1.0}, {Hinge, 1.0}}}));
  for (const auto loss : {Sft, SimPo, AlphaPo, Cpo, Orpo, OrpoToken}) {
    EXPECT_FALSE(needs_reference(PreferenceOptions{.losses = {{loss, 1.0}}})) << name_of(loss);
  }
  EXPECT_TRUE(needs_log_sum_p2({.use_weighting = true}));
  EXPECT_FALSE(needs_log_sum_p2({}));
  EXPECT_TRUE(needs_prompt({.losses = {{Orpo, 1.0}}}));
  EXPECT_FALSE(needs_prompt({.losses = {{Cpo, 1.0}}}));
}

}  // namespace
}  // namespace reprise
