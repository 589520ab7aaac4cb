// Policy losses: against TRL and OpenRLHF, and what those cannot tell.
#include "loss/policy_case.h"
#include "support/bitwise.h"
#include "support/devices.h"
#include "support/tensors.h"

#include <reprise/loss/policy_gradient.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace reprise {
namespace {

using testing::bitwise_equal;
using testing::contains;
using testing::find_metric;
using testing::message_of;
using testing::policy_options;

class Policy : public testing::PolicyFixture {
 protected:
  /// The step of two micro-batches that the peers made too.
  std::vector<PolicyResult> run(const PolicyBatch& batch, const PolicyOptions& options) const {
    return {policy_loss(rows(batch, 0, 3), step(), options),
            policy_loss(rows(batch, 3, 6), step(), options)};
  }

  void expect_peer_metrics(const std::string& name, const std::vector<PolicyResult>& parts) const {
    for (const auto* metric : {"kl",
                               "entropy",
                               "clip_ratio/low_mean",
                               "clip_ratio/high_mean",
                               "clip_ratio/region_mean",
                               "cispo_clip_ratio",
                               "vespo/phi_seq_mean",
                               "old_kl",
                               "sampling/kl"}) {
      const auto stored = name + "/" + metric;
      if (!fixture_.has(stored)) {
        continue;
      }
      std::vector<at::Tensor> means;
      for (const auto& part : parts) {
        const auto* found = find_metric(part.metrics, metric);
        ASSERT_NE(found, nullptr) << stored;
        means.push_back(found->sum / found->weight);
      }
      fixture_.expect_equal(at::stack(means), stored);
    }
  }
};

TEST_F(Policy, EqualsThePeersInEveryCase) {
  ASSERT_EQ(cases().size(), 73U);
  for (const auto& [name, settings] : cases().items()) {
    const auto input = batch(settings);
    const auto parts = run(input, policy_options(settings));
    fixture_.expect_loss_and_gradient(name, parts[0].part + parts[1].part, input.logprobs);
    if (settings.contains("entropy_coef")) {
      fixture_.expect_equal(input.entropy.grad(), name + ".entropy_grad");
    }
    expect_peer_metrics(name, parts);
  }
}

TEST_F(Policy, HasPeersForEveryLossThatReachItsBounds) {
  std::set<PolicyLoss> missing;
  for (int i = 0; i <= static_cast<int>(PolicyLoss::Rloo); ++i) {
    missing.insert(static_cast<PolicyLoss>(i));
  }
  for (const auto& settings : cases()) {
    missing.erase(policy_options(settings).loss);
  }
  EXPECT_TRUE(missing.empty());
  for (const auto* name : {"trl_grpo", "trl_luspo_gspo", "trl_bnpo_delta", "trl_rloo"}) {
    for (const auto* bound : {"/clip_ratio/low_mean", "/clip_ratio/high_mean"}) {
      EXPECT_GT(fixture_[std::string(name) + bound].sum().item<float>(), 0) << name << bound;
    }
  }
}

TEST_F(Policy, HasARatioOfExactlyOneWithoutOldLogprobs) {
  for (const auto& [name, settings] : cases().items()) {
    auto options = policy_options(settings);
    options.off_policy_threshold.reset();
    auto without = batch(settings);
    without.old_logprobs = at::Tensor();
    auto with = batch(settings);
    with.old_logprobs = with.logprobs.detach();
    const auto a = policy_loss(without, step(), options), b = policy_loss(with, step(), options);
    EXPECT_TRUE(bitwise_equal(a.part, b.part)) << name;
    const auto* ratio = find_metric(b.metrics, "ratio_mean");
    ASSERT_NE(ratio, nullptr);
    EXPECT_TRUE(bitwise_equal(ratio->sum, ratio->weight)) << name;
    EXPECT_EQ(find_metric(a.metrics, "ratio_mean"), nullptr) << "nothing was compared";
  }
}

TEST_F(Policy, DoesNotSeeWhatStandsOutsideTheMask) {
  const auto unseen = fixture_["mask"].eq(0);
  for (const auto& [name, settings] : cases().items()) {
    const auto options = policy_options(settings);
    const auto clean = batch(settings);
    auto dirty = batch(settings);
    for (auto* tensor : {&dirty.logprobs,
                         &dirty.old_logprobs,
                         &dirty.reference_logprobs,
                         &dirty.sampling_logprobs,
                         &dirty.advantages,
                         &dirty.entropy}) {
      if (tensor->defined() && tensor->dim() == 2) {
        *tensor = tensor->detach()
                      .masked_fill(unseen, std::numeric_limits<float>::quiet_NaN())
                      .requires_grad_();
      }
    }
    const auto result = policy_loss(dirty, step(), options);
    const auto expected = policy_loss(clean, step(), options);
    EXPECT_TRUE(bitwise_equal(result.part, expected.part)) << name;
    ASSERT_EQ(result.metrics.size(), expected.metrics.size());
    for (size_t i = 0; i < result.metrics.size(); ++i) {
      EXPECT_TRUE(bitwise_equal(result.metrics[i].sum, expected.metrics[i].sum))
          << name << ": " << result.metrics[i].name;
    }
    result.part.backward();
    EXPECT_TRUE(at::isfinite(dirty.logprobs.grad()).all().item<bool>()) << name;
    EXPECT_EQ(dirty.logprobs.grad().masked_select(unseen).abs().sum().item<float>(), 0) << name;
    EXPECT_FALSE(dirty.advantages.grad().defined()) << "an advantage is a constant";
  }
}

// Three completions: all clipped from below, half of the tokens from above, and no token at all.
TEST(PolicyExtremes, AreThoseOfCompletionsThatHaveTokens) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto mask = at::tensor({1, 1, 0, 1, 1, 1, 0, 0, 0}).reshape({3, 3});
  PolicyBatch batch{
      .logprobs =
          at::tensor({-3., -3., 9., 0., -1., 0., 9., 9., 9.}).reshape({3, 3}).requires_grad_(),
      .advantages = at::tensor({-1., 1., 1.}),
      .mask = mask};
  batch.old_logprobs = at::full({3, 3}, -1., at::kFloat);
  batch.sampling_logprobs = at::tensor({-1., -1.5, 7., nan, -1., -1., 7., 7., 7.}).reshape({3, 3});
  const auto metrics =
      policy_loss(batch, {.sequences = 3}, {.loss = PolicyLoss::Grpo, .epsilon = 0.2}).metrics;
  const auto expect = [&](const char* name, double value, MetricMean mean) {
    const auto* found = find_metric(metrics, name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(found->weight.item<double>(), 1) << name;
    EXPECT_NEAR(found->sum.item<double>(), value, 1e-6) << name;
    EXPECT_EQ(found->mean, mean) << name;
  };
  expect("clip_ratio/low_min", 0, MetricMean::OfMinima);  // the second has none
  expect("clip_ratio/high_max", 2. / 3, MetricMean::OfMaxima);
  expect("sampling/sampling_logp_difference/max", 0.5, MetricMean::Greatest);
  batch.mask = at::zeros({3, 3});
  const auto none = policy_loss(batch, {.sequences = 3}, {.loss = PolicyLoss::Grpo}).metrics;
  EXPECT_EQ(find_metric(none, "clip_ratio/high_max")->weight.item<double>(), 0);
}

// Bnpo and the entropies of TRL are means of micro-batches by definition.
TEST_F(Policy, DoesNotDependOnHowAStepIsCutIntoMicroBatches) {
  for (const auto& [name, settings] : cases().items()) {
    const auto options = policy_options(settings);
    if (options.loss == PolicyLoss::Bnpo || needs_entropy(options)) {
      continue;
    }
    const auto input = batch(settings);
    const auto uneven = policy_loss(rows(input, 0, 1), step(), options).part +
                        policy_loss(rows(input, 1, 6), step(), options).part;
    EXPECT_LT(testing::relative_error(uneven, policy_loss(input, step(), options).part), 1e-6)
        << name;
  }
}

TEST_F(Policy, IsZeroWithAZeroGradientForAMicroBatchWithoutTokens) {
  for (const auto& [name, settings] : cases().items()) {
    auto input = batch(settings);
    input.mask = at::zeros_like(input.mask);
    const auto result = policy_loss(input, step(), policy_options(settings));
    EXPECT_TRUE(std::isfinite(result.part.item<float>())) << name;
    result.part.backward();
    EXPECT_EQ(input.logprobs.grad().abs().sum().item<float>(), 0) << name;
  }
}

TEST_F(Policy, IsTheSameOnEveryDevice) {
  for (const auto device : testing::devices()) {
    for (const auto& [name, settings] : cases().items()) {
      const auto here = batch(settings);
      const auto move = [&](const at::Tensor& t) { return t.defined() ? t.to(device) : t; };
      const PolicyBatch there{move(here.logprobs),
                              move(here.old_logprobs),
                              move(here.reference_logprobs),
                              move(here.sampling_logprobs),
                              move(here.advantages),
                              move(here.mask),
                              move(here.entropy)};
      const auto options = policy_options(settings);
      const auto result = policy_loss(there, step(), options);
      EXPECT_EQ(result.part.device().type(), device);
      EXPECT_LT(testing::relative_error(result.part, policy_loss(here, step(), options).part), 1e-5)
          << name;
    }
  }
}

TEST_F(Policy, ComputesInFloat32AndGivesFiguresWithoutGradient) {
  for (const auto& [name, settings] : cases().items()) {
    auto coarse = batch(settings);
    coarse.logprobs = coarse.logprobs.detach().to(at::kBFloat16).requires_grad_();
    const auto result = policy_loss(coarse, step(), policy_options(settings));
    EXPECT_EQ(result.part.scalar_type(), at::kFloat) << name;
    EXPECT_TRUE(result.part.requires_grad()) << name;
    for (const auto& metric : result.metrics) {
      EXPECT_FALSE(metric.sum.requires_grad() || metric.weight.requires_grad()) << metric.name;
      EXPECT_EQ(metric.sum.dim() + metric.weight.dim(), 0) << metric.name;
      EXPECT_EQ(metric.sum.scalar_type(), at::kFloat) << metric.name;
    }
  }
}

TEST_F(Policy, ClipsTheSameWithDeltaAndWithDualClip) {
  const Json settings = {{"loss", "ppo"}};
  const auto totals = PolicyStep{.tokens = 23, .generation_tokens = 23};
  const PolicyOptions dual{.loss = PolicyLoss::Ppo, .dual_clip = 1.25};
  const PolicyOptions delta{.loss = PolicyLoss::Dapo, .delta = 1.25};
  const auto a = policy_loss(batch(settings), totals, dual).part;
  const auto b = policy_loss(batch(settings), totals, delta).part;
  EXPECT_LT(testing::relative_error(a, b), 1e-6);
  const auto without = policy_loss(batch(settings), totals, {.loss = PolicyLoss::Ppo}).part;
  EXPECT_GT(testing::relative_error(a, without), 1e-3) << "the case must reach the bound";
}

TEST_F(Policy, LeavesOutOfTheMismatchWhatTheSamplerDidNotScore) {
  const auto input = batch({{"loss", "dapo"}, {"sampling", "sampling"}});
  const auto result = policy_loss(input, step(), {});
  double difference = 0, kl = 0, known = 0;
  for (int64_t row = 0; row < 6; ++row) {
    for (int64_t t = 0; t < 7; ++t) {
      const double d = input.sampling_logprobs[row][t].item<double>() -
                       input.old_logprobs[row][t].item<double>();
      if (input.mask[row][t].item<int64_t>() != 0 && !std::isnan(d)) {
        difference += std::abs(d);
        kl += d;
        known += 1;
      }
    }
  }
  EXPECT_EQ(known, step().tokens - 1);
  const auto* mean = find_metric(result.metrics, "sampling/sampling_logp_difference/mean");
  const auto* estimate = find_metric(result.metrics, "sampling/kl");
  ASSERT_TRUE(mean != nullptr && estimate != nullptr);
  EXPECT_EQ(mean->weight.item<double>(), known);
  EXPECT_NEAR(mean->sum.item<double>(), difference, 1e-5);
  EXPECT_NEAR(estimate->sum.item<double>(), kl, 1e-5);
}

TEST_F(Policy, RefusesInputsThatDoNotFitByName) {
  const auto refusal = [&](const PolicyBatch& input, const PolicyOptions& options) {
    return message_of<c10::Error>([&] { policy_loss(input, step(), options); });
  };
  const auto plain = batch({{"loss", "dapo"}});
  EXPECT_TRUE(contains(refusal(plain, {.beta = 0.1}), "reference"));
  EXPECT_TRUE(
      contains(refusal(plain, {.mismatch = MismatchCorrection::TokenMask, .mismatch_greatest = 2}),
               "sampling"));
  auto changed = plain;
  changed.entropy = at::Tensor();
  EXPECT_TRUE(contains(refusal(changed, {.entropy_coef = 0.1}), "entropies"));
  changed = plain;
  changed.old_logprobs = at::Tensor();
  EXPECT_TRUE(contains(refusal(changed, {.off_policy_threshold = 0.1}), "off_policy"));
  changed.old_logprobs = plain.old_logprobs.slice(1, 1);
  EXPECT_TRUE(contains(refusal(changed, {}), "old log-probabilities"));
  changed = plain;
  changed.advantages = plain.advantages.slice(0, 1);
  EXPECT_TRUE(contains(refusal(changed, {}), "advantages"));
  changed.advantages = fixture_["token_advantages"];
  EXPECT_TRUE(contains(refusal(changed, {.loss = PolicyLoss::Rloo}), "of completions (B)"));
  const auto totals = message_of<c10::Error>(
      [&] { policy_loss(plain, {.sequences = 6}, {.loss = PolicyLoss::DrGrpo}); });
  EXPECT_TRUE(contains(totals, "max_completion_length"));
  const auto tokens = message_of<c10::Error>([&] { policy_loss(plain, {}, {}); });
  EXPECT_TRUE(contains(tokens, "generation_tokens"));
}

}  // namespace
}  // namespace reprise
