// linear_cross_entropy against the cross entropy of whole logits, and against central differences.
#include "loss/head_case.h"
#include "support/bitwise.h"
#include "support/numeric_gradient.h"
#include "support/tensors.h"

#include <reprise/loss/head.h>

#include <gtest/gtest.h>

namespace reprise::testing {
namespace {

struct PlainSums {
  at::Tensor sum, entropy, correct;
};

PlainSums plain_sums(const HeadCase& c, TokenWeighting weighting) {
  const auto logits = c.logits();
  const auto logp = logits.log_softmax(-1);
  const auto counts = c.counts().to(logits.scalar_type());
  const auto target_logp = logp.gather(-1, c.safe_targets()).squeeze(-1);
  const auto weights =
      weighting == TokenWeighting::Probability ? target_logp.detach().exp() * counts : counts;
  return {.sum = -(target_logp * weights).sum(),
          .entropy = -((logp.exp() * logp).sum(-1) * counts).sum(),
          .correct = (logits.argmax(-1) == c.targets).sum()};
}

void expect_plain_cross_entropy(const CaseShape& shape, TokenWeighting weighting) {
  const auto c = make_case(shape);
  const auto expected = plain_sums(c, weighting);
  const auto expected_gradients = gradients(expected.sum * 0.3, c.leaves());
  const double tolerance = tolerance_of(shape.type);
  for (const int64_t chunk : chunk_sizes()) {
    SCOPED_TRACE(c10::str(shape.type, " on ", shape.device, ", chunks of ", chunk));
    const auto ours =
        linear_cross_entropy(c.hidden, c.head(), c.targets, weighting, {.tokens = chunk});
    expect_close({ours.sum, ours.entropy}, {expected.sum, expected.entropy}, tolerance);
    EXPECT_EQ(ours.correct.item<double>(), expected.correct.item<double>());
    EXPECT_EQ(ours.tokens, 14);
    expect_close(gradients(ours.sum * 0.3, c.leaves()), expected_gradients, tolerance);
  }
}

TEST(LinearCrossEntropy, EqualsThatOfWholeLogitsForEveryChunkSize) {
  for (const auto device : devices()) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      for (const auto& shape : logit_shapes()) {
        for (const auto weighting : {TokenWeighting::None, TokenWeighting::Probability}) {
          for (const bool has_bias : {false, true}) {
            expect_plain_cross_entropy(
                {.has_bias = has_bias, .type = type, .device = device, .logits = shape}, weighting);
          }
        }
      }
    }
  }
}

TEST(LinearCrossEntropy, HasTheGradientOfCentralDifferences) {
  const auto c =
      make_case({.rows = 1, .length = 4, .width = 3, .vocabulary = 5, .type = at::kDouble});
  const auto loss = [&](const at::Tensor& hidden, const LinearHead& head) {
    return linear_cross_entropy(hidden, head, c.targets, TokenWeighting::None, {.tokens = 2}).sum;
  };
  const auto analytic = gradients(loss(c.hidden, c.head()), c.leaves());
  const auto of_hidden =
      numeric_gradient([&](at::Tensor x) { return loss(x, c.head()); }, c.hidden);
  const auto of_weight = numeric_gradient(
      [&](at::Tensor x) { return loss(c.hidden, {.weight = x, .bias = c.bias}); }, c.weight);
  const auto of_bias = numeric_gradient(
      [&](at::Tensor x) { return loss(c.hidden, {.weight = c.weight, .bias = x}); }, c.bias);
  expect_close(analytic, {of_hidden, of_weight, of_bias}, 1e-8);
}

TEST(LinearCrossEntropy, GivesTheSameGradientsToASecondBackward) {
  const auto c = make_case();
  const auto loss = linear_cross_entropy(c.hidden, c.head(), c.targets).sum;
  const auto first = torch::autograd::grad({loss}, c.leaves(), {}, /*retain_graph=*/true);
  expect_bitwise_equal(torch::autograd::grad({loss}, c.leaves()), first);
}

TEST(LinearCrossEntropy, IsTheSameWithoutGradients) {
  const auto c = make_case();
  const auto trained = linear_cross_entropy(c.hidden, c.head(), c.targets);
  const torch::NoGradGuard no_grad;
  const auto evaluated = linear_cross_entropy(c.hidden, c.head(), c.targets);
  EXPECT_TRUE(bitwise_equal(evaluated.sum, trained.sum.detach()));
  EXPECT_FALSE(evaluated.sum.requires_grad());
}

TEST(LinearCrossEntropy, CarriesGradientsInTheSumOnly) {
  const auto c = make_case();
  const auto result = linear_cross_entropy(c.hidden, c.head(), c.targets);
  EXPECT_TRUE(result.sum.requires_grad());
  EXPECT_FALSE(result.entropy.requires_grad() || result.correct.requires_grad());
}

TEST(LinearCrossEntropy, IsZeroWithZeroGradientsWhereAllIsIgnored) {
  auto c = make_case();
  c.targets.fill_(kIgnoredLabel);
  const auto result = linear_cross_entropy(c.hidden, c.head(), c.targets);
  EXPECT_EQ(result.tokens, 0);
  for (const auto& sum : {result.sum.detach(), result.entropy, result.correct}) {
    EXPECT_TRUE(bitwise_equal(sum, torch::zeros({})));
  }
  const auto found = gradients(result.sum, c.leaves());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(found[i], torch::zeros_like(c.leaves()[i])));
  }
}

TEST(LinearCrossEntropy, TrainsTheHeadAloneOrTheHiddenStatesAlone) {
  for (const bool trains_head : {false, true}) {
    auto c = make_case();
    const auto all = gradients(linear_cross_entropy(c.hidden, c.head(), c.targets).sum, c.leaves());
    c.hidden.set_requires_grad(!trains_head);
    c.weight.set_requires_grad(trains_head);
    c.bias.set_requires_grad(false);
    linear_cross_entropy(c.hidden, c.head(), c.targets).sum.backward();
    EXPECT_TRUE(bitwise_equal(c.hidden.grad(), trains_head ? at::Tensor() : all[0]));
    EXPECT_TRUE(bitwise_equal(c.weight.grad(), trains_head ? all[1] : at::Tensor()));
    EXPECT_FALSE(c.bias.grad().defined());
  }
}

TargetSummary summary_of(const at::Tensor& targets) {
  const auto values = targets.cpu().contiguous();
  TargetSummary summary;
  summary.add({values.const_data_ptr<int64_t>(), static_cast<size_t>(values.numel())});
  return summary;
}

TEST(LinearCrossEntropy, IsTheSameToTheLastBitIfTheHostKnowsTheTargets) {
  for (const auto device : devices()) {
    auto c = make_case({.device = device});
    for (const auto& targets :
         {c.targets, c.targets.clamp_min(0), torch::full_like(c.targets, kIgnoredLabel)}) {
      const auto plain = linear_cross_entropy(c.hidden, c.head(), targets);
      const auto known = linear_cross_entropy(c.hidden, c.head(), {targets, summary_of(targets)});
      EXPECT_EQ(known.tokens, plain.tokens);
      expect_bitwise_equal({known.sum, known.entropy, known.correct},
                           {plain.sum, plain.entropy, plain.correct});
      expect_bitwise_equal(gradients(known.sum, c.leaves()), gradients(plain.sum, c.leaves()));
    }
  }
}

TEST(LinearCrossEntropy, RefusesTargetsThatAreNotWhatTheHostKnows) {
  const auto c = make_case();
  const auto right = summary_of(c.targets);
  const auto message = [&](const TargetSummary& known) {
    return message_of<c10::Error>([&] {
      linear_cross_entropy(c.hidden, c.head(), {c.targets, known});
    });
  };
  EXPECT_TRUE(contains(message({right.count + 1, right.min, right.max}), "Targets::known"));
  EXPECT_TRUE(contains(message({right.count, right.min, right.max - 1}), "Targets::known"));
  EXPECT_TRUE(contains(message({right.count, right.min + 1, right.max}), "Targets::known"));
  EXPECT_NO_THROW(
      linear_cross_entropy(c.hidden, c.head(), {c.targets, TargetSummary{right.count, 0, 12}}));
}

TEST(LinearCrossEntropy, RefusesSecondDerivatives) {
  const auto c = make_case();
  const auto loss = linear_cross_entropy(c.hidden, c.head(), c.targets).sum;
  EXPECT_TRUE(contains(message_of<c10::Error>([&] {
                         torch::autograd::grad({loss}, {c.hidden}, {}, true, /*create_graph=*/true);
                       }),
                       "differentiable once"));
}

}  // namespace
}  // namespace reprise::testing
