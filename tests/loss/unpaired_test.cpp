// Losses on single responses: against TRL and OpenRLHF, and their edges.
#include "loss/loss_fixture.h"
#include "support/bitwise.h"
#include "support/tensors.h"

#include <reprise/loss/unpaired.h>

#include <gtest/gtest.h>

#include <string>

namespace reprise {
namespace {

using testing::bitwise_equal;
using testing::contains;
using testing::message_of;

UnpairedOptions unpaired_options_of(const Json& settings) {
  UnpairedOptions options;
  options.loss = parse_unpaired_loss(settings.at("loss").get<std::string>());
  options.beta = settings.at("beta");
  if (settings.contains("weights")) {
    options.desirable_weight = settings.at("weights").at(0);
    options.undesirable_weight = settings.at("weights").at(1);
  }
  return options;
}

TEST(Unpaired, EqualsThePeersInEveryCase) {
  const testing::LossFixture fixture("unpaired");
  ASSERT_EQ(fixture.cases().size(), 7U);
  for (const auto& [name, settings] : fixture.cases().items()) {
    const auto options = unpaired_options_of(settings);
    const auto kl = needs_kl(options)
                        ? mismatched_kl(fixture["mismatched.policy"],
                                        fixture[settings.at("mismatched").get<std::string>()])
                        : at::Tensor();
    const auto policy = fixture.leaf("policy");
    const auto result =
        unpaired_loss(policy, fixture["reference"], fixture["desirable"], kl, options);
    fixture.expect_loss_and_gradient(name, result.loss, policy);
    fixture.expect_equal(
        at::stack({result.desirable_rewards.mean(), result.undesirable_rewards.mean()}),
        name + ".rewards");
    if (fixture.has(name + ".kl")) {
      fixture.expect_equal(result.kl, name + ".kl");
    }
  }
}

TEST(Unpaired, HasRewardsOfExactlyZeroWhenPolicyAndReferenceAgree) {
  const auto logps = -10 * torch::rand({6});
  const auto desirable = torch::tensor({true, false, false, true, true, false});
  const auto kl = mismatched_kl(logps, logps);
  const auto result = unpaired_loss(logps, logps, desirable, kl, {});
  EXPECT_TRUE(bitwise_equal(result.desirable_rewards, torch::zeros({3})));
  EXPECT_TRUE(bitwise_equal(result.undesirable_rewards, torch::zeros({3})));
  EXPECT_EQ(result.kl.item<float>(), 0);
  EXPECT_EQ(result.loss.item<float>(), 0.5F);
}

TEST(Unpaired, TakesABatchOfOneKind) {
  const auto policy = torch::tensor({-1.0F, -2.0F}).requires_grad_();
  const auto reference = torch::tensor({-1.5F, -1.0F});
  const auto result = unpaired_loss(
      policy, reference, torch::tensor({true, true}), torch::tensor(0.1F), {.beta = 0.5});
  EXPECT_EQ(result.desirable_rewards.numel(), 2);
  EXPECT_EQ(result.undesirable_rewards.numel(), 0);
  result.loss.backward();
  EXPECT_LT(policy.grad().max().item<float>(), 0) << "both are to become more probable";
}

TEST(Unpaired, PassesNoGradientThroughTheDivergence) {
  const auto policy = torch::tensor({-1.0F, -2.0F}).requires_grad_();
  const auto mismatched = torch::tensor({-3.0F, -1.0F}).requires_grad_();
  const auto kl = mismatched_kl(mismatched, torch::tensor({-4.0F, -2.0F}));
  EXPECT_FALSE(kl.requires_grad());
  const auto attached = (mismatched + 4).mean();
  unpaired_loss(policy, policy.detach() - 1, torch::tensor({true, false}), attached, {})
      .loss.backward();
  EXPECT_FALSE(mismatched.grad().defined());
}

TEST(Unpaired, CutsTheDivergenceAfterItWasAveraged) {
  const auto below = mismatched_kl(torch::tensor({-3.0F}), torch::tensor({-1.0F}));
  EXPECT_EQ(below.item<float>(), -2) << "a rank's share is not cut";
  const auto policy = torch::tensor({-1.0F});
  const auto result = unpaired_loss(policy, policy, torch::tensor({true}), below, {});
  EXPECT_EQ(result.kl.item<float>(), 0);
}

TEST(Unpaired, RefusesWhatItCannotCompute) {
  const auto logps = torch::tensor({-1.0F, -2.0F});
  const auto good = torch::tensor({true, true});
  const auto refusal = [&](const UnpairedOptions& options, const at::Tensor& kl) {
    return message_of<c10::Error>([&] { unpaired_loss(logps, logps, good, kl, options); });
  };
  const auto kl = torch::tensor(0.0F);
  EXPECT_TRUE(contains(refusal({}, {}), "mismatched_kl"));
  EXPECT_TRUE(contains(refusal({.loss = UnpairedLoss::KtoEven}, {}), "has 2 and 0"));
  EXPECT_TRUE(contains(refusal({.beta = 0}, kl), "beta"));
  EXPECT_TRUE(contains(refusal({.desirable_weight = -1}, kl), "weights"));
  EXPECT_TRUE(contains(refusal({.desirable_weight = 0, .undesirable_weight = 0}, kl),
                       "nothing is learned"));
  EXPECT_TRUE(contains(
      message_of<c10::Error>([&] { unpaired_loss(logps, logps, good.to(at::kLong), kl, {}); }),
      "desirable"));
  EXPECT_TRUE(contains(
      message_of<c10::Error>([&] { unpaired_loss(logps, logps.slice(0, 1), good, kl, {}); }),
      "reference"));
  EXPECT_TRUE(contains(message_of<c10::Error>([] { parse_unpaired_loss("bco"); }), "kto"));
}

}  // namespace
}  // namespace reprise
