// The loss of a value model: against OpenRLHF and TRL, and its edges.
#include "loss/loss_fixture.h"
#include "support/bitwise.h"
#include "support/tensors.h"

#include <reprise/loss/value.h>

#include <gtest/gtest.h>

#include <limits>

namespace reprise {
namespace {

using testing::bitwise_equal;
using testing::contains;
using testing::message_of;

ValueOptions value_options_of(const Json& settings) {
  ValueOptions options;
  options.clip.reset();
  if (settings.contains("clip")) {
    options.clip = settings.at("clip").get<double>();
  }
  options.coefficient = settings.value("coefficient", 1.0);
  return options;
}

class Value : public ::testing::Test {
 protected:
  ValueBatch batch(const at::Tensor& values) const {
    return {values, fixture_["old"], fixture_["returns"], mask_};
  }
  double tokens() const { return mask_.sum().item<double>(); }

  testing::LossFixture fixture_{"value"};
  at::Tensor mask_ = fixture_["mask"];
};

TEST_F(Value, EqualsThePeersInEveryCase) {
  ASSERT_EQ(fixture_.cases().size(), 3U);
  for (const auto& [name, settings] : fixture_.cases().items()) {
    const auto values = fixture_.leaf("values");
    const auto result = value_loss(batch(values), tokens(), value_options_of(settings));
    fixture_.expect_loss_and_gradient(name, result.part, values);
    if (fixture_.has(name + ".clipfrac")) {
      const auto& metric = result.metrics.at(1);
      EXPECT_EQ(metric.name, "val/clipfrac");
      fixture_.expect_equal(metric.sum / metric.weight, name + ".clipfrac");
      EXPECT_GT(metric.sum.item<float>(), 0) << "the case must reach the bound";
    }
  }
}

TEST_F(Value, OfTwoMicroBatchesAddsUpToThatOfTheStep) {
  const auto values = fixture_["values"];
  const auto whole = batch(values);
  const auto part = [&](int64_t first, int64_t end) {
    return value_loss({whole.values.slice(0, first, end),
                       whole.old_values.slice(0, first, end),
                       whole.returns.slice(0, first, end),
                       whole.mask.slice(0, first, end)},
                      tokens(),
                      {})
        .part;
  };
  EXPECT_LT(testing::relative_error(part(0, 1) + part(1, 6), value_loss(whole, tokens(), {}).part),
            1e-6);
}

TEST_F(Value, DoesNotSeeWhatStandsOutsideTheMask) {
  const auto unseen = mask_.eq(0);
  const auto spoiled = [&](const at::Tensor& values) {
    return values.masked_fill(unseen, std::numeric_limits<float>::quiet_NaN());
  };
  const auto clean = batch(fixture_["values"]);
  const ValueBatch dirty{spoiled(clean.values).requires_grad_(),
                         spoiled(clean.old_values),
                         spoiled(clean.returns),
                         mask_};
  const auto result = value_loss(dirty, tokens(), {});
  EXPECT_TRUE(bitwise_equal(result.part, value_loss(clean, tokens(), {}).part));
  result.part.backward();
  EXPECT_TRUE(at::isfinite(dirty.values.grad()).all().item<bool>());
  EXPECT_EQ(dirty.values.grad().masked_select(unseen).abs().sum().item<float>(), 0);
  EXPECT_TRUE(bitwise_equal(explained_variance(dirty.values, dirty.returns, mask_),
                            explained_variance(clean.values, clean.returns, mask_)));
}

TEST_F(Value, IsZeroForAStepWithoutTokens) {
  mask_ = torch::zeros_like(mask_);
  const auto values = fixture_.leaf("values");
  const auto result = value_loss(batch(values), 0, {});
  EXPECT_EQ(result.part.item<float>(), 0);
  result.part.backward();
  EXPECT_EQ(values.grad().abs().sum().item<float>(), 0);
}

TEST(ExplainedVariance, IsOneForPerfectValuesAndZeroForTheMean) {
  const auto returns = torch::tensor({{1.0F, 2.0F, 3.0F, 9.0F}});
  const auto mask = torch::tensor({{1, 1, 1, 0}});
  EXPECT_EQ(explained_variance(returns, returns, mask).item<float>(), 1);
  EXPECT_EQ(explained_variance(returns + 5, returns, mask).item<float>(), 1) << "but for the mean";
  EXPECT_EQ(explained_variance(torch::full({1, 4}, 2.0F), returns, mask).item<float>(), 0);
  EXPECT_LT(explained_variance(-returns, returns, mask).item<float>(), 0);
  EXPECT_EQ(explained_variance(returns, torch::full({1, 4}, 0.1F), mask).item<float>(), 0)
      << "nothing to explain";
}

TEST(ValueOptions, OutOfRangeAndInputsThatDoNotFitAreRefusedByName) {
  const auto refusal = [](auto fn) { return message_of<c10::Error>(fn); };
  EXPECT_TRUE(contains(refusal([] { validate(ValueOptions{.clip = 0.0}); }), "clip"));
  EXPECT_TRUE(contains(refusal([] { validate(ValueOptions{.coefficient = 0}); }), "coefficient"));
  const auto x = torch::zeros({2, 3});
  EXPECT_TRUE(contains(refusal([&] { value_loss({x, {}, x, x}, 6, {}); }), "old values"));
  EXPECT_TRUE(contains(refusal([&] { value_loss({x, x, x[0], x}, 6, {}); }), "returns"));
  EXPECT_TRUE(contains(refusal([&] { value_loss({x, x, x, x}, -1, {}); }), "step_tokens"));
}

}  // namespace
}  // namespace reprise
