// token_logprobs against the same numbers of whole logits, and against central differences.
#include "loss/head_case.h"
#include "support/bitwise.h"
#include "support/numeric_gradient.h"
#include "support/tensors.h"

#include <reprise/loss/head.h>

#include <gtest/gtest.h>

namespace reprise::testing {
namespace {

TokenRequests everything(double temperature, int64_t chunk) {
  return {.temperature = temperature,
          .entropy = true,
          .log_sum_p2 = true,
          .mean_logit = true,
          .top1 = true,
          .chunks = {.tokens = chunk}};
}

/// All statistics from whole logits.
TokenValues plain_values(const HeadCase& c, double temperature) {
  const auto logits = c.logits(temperature);
  const auto logp = logits.log_softmax(-1);
  const auto counts = c.counts().to(logits.scalar_type());
  TokenValues values;
  values.logprobs = logp.gather(-1, c.safe_targets()).squeeze(-1) * counts;
  values.entropy = -(logp.exp() * logp).sum(-1) * counts;
  values.log_sum_p2 = ((2 * logits).logsumexp({-1}) - 2 * logits.logsumexp({-1})) * counts;
  values.mean_logit = logits.mean(-1) * counts;
  values.top1 = (logits.argmax(-1) == c.targets).to(logits.scalar_type());
  return values;
}

std::vector<at::Tensor> listed(const TokenValues& values) {
  return {values.logprobs, values.entropy, values.log_sum_p2, values.mean_logit, values.top1};
}

at::Tensor weighted(const TokenValues& values, const at::Tensor& targets) {
  return (values.logprobs * token_weights(targets, -1, 2)).sum() +
         (values.entropy * token_weights(targets, 3, -1)).sum();
}

void expect_plain_logprobs(const CaseShape& shape, double temperature) {
  const auto c = make_case(shape);
  const auto expected = plain_values(c, temperature);
  const auto expected_gradients = gradients(weighted(expected, c.targets), c.leaves());
  for (const int64_t chunk : chunk_sizes()) {
    SCOPED_TRACE(c10::str(shape.type, " on ", shape.device, ", chunks of ", chunk));
    const auto ours = token_logprobs(c.hidden, c.head(), c.targets, everything(temperature, chunk));
    expect_close(listed(ours), listed(expected), tolerance_of(shape.type));
    expect_close(gradients(weighted(ours, c.targets), c.leaves()),
                 expected_gradients,
                 tolerance_of(shape.type));
  }
}

TEST(TokenLogprobs, EqualThoseOfWholeLogitsForEveryChunkSize) {
  for (const auto device : devices()) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      for (const auto& shape : logit_shapes()) {
        CaseShape one{.has_bias = false, .type = type, .device = device, .logits = shape};
        expect_plain_logprobs(one, 1.0);
        one.has_bias = true;
        expect_plain_logprobs(one, 0.7);
      }
    }
  }
}

TEST(TokenLogprobsGradient, IsThatOfLogprobsAloneAndOfEntropyAlone) {
  const auto c = make_case({.type = at::kDouble});
  const auto weights = token_weights(c.targets, -1, 2);
  const auto expected = plain_values(c, 0.7);
  const auto ours = token_logprobs(c.hidden, c.head(), c.targets, everything(0.7, 4));
  const auto without_entropy =
      token_logprobs(c.hidden, c.head(), c.targets, {.temperature = 0.7, .chunks = {.tokens = 4}});
  const auto of = [&](const at::Tensor& values) {
    return torch::autograd::grad({(values * weights).sum()}, c.leaves(), {}, /*retain_graph=*/true);
  };
  expect_close(of(ours.logprobs), of(expected.logprobs), 1e-12);
  expect_close(of(ours.entropy), of(expected.entropy), 1e-12);
  expect_close(of(without_entropy.logprobs), of(expected.logprobs), 1e-12);
}

TEST(TokenLogprobsGradient, IsComputedOnlyForWhatNeedsOne) {
  auto c = make_case();
  c.weight.set_requires_grad(false);
  c.bias.set_requires_grad(false);
  token_logprobs(c.hidden, c.head(), c.targets).logprobs.sum().backward();
  EXPECT_TRUE(c.hidden.grad().defined());
  EXPECT_FALSE(c.weight.grad().defined() || c.bias.grad().defined());
}

TEST(TokenLogprobsGradient, EqualsCentralDifferences) {
  const auto c =
      make_case({.rows = 1, .length = 4, .width = 3, .vocabulary = 5, .type = at::kDouble});
  const auto loss = [&](const HeadCase& at_point) {
    return weighted(token_logprobs(at_point.hidden, at_point.head(), c.targets, everything(1.3, 2)),
                    c.targets);
  };
  const auto analytic = gradients(loss(c), c.leaves());
  const auto moved = [&](at::Tensor HeadCase::*member) {
    return [&, member](at::Tensor x) {
      auto other = c;
      other.*member = x;
      return loss(other);
    };
  };
  EXPECT_LT(relative_error(analytic[0], numeric_gradient(moved(&HeadCase::hidden), c.hidden)),
            1e-8);
  EXPECT_LT(relative_error(analytic[1], numeric_gradient(moved(&HeadCase::weight), c.weight)),
            1e-8);
  EXPECT_LT(relative_error(analytic[2], numeric_gradient(moved(&HeadCase::bias), c.bias)), 1e-8);
}

TEST(TokenLogprobsResult, IsOnlyWhatWasAskedFor) {
  const auto c = make_case();
  const auto values = token_logprobs(c.hidden, c.head(), c.targets, {.mean_logit = true});
  EXPECT_TRUE(values.logprobs.defined() && values.mean_logit.defined());
  EXPECT_FALSE(values.entropy.defined() || values.log_sum_p2.defined() || values.top1.defined());
}

TEST(TokenLogprobsResult, CarriesGradientsInLogprobsAndEntropyOnly) {
  const auto c = make_case();
  const auto values = token_logprobs(c.hidden, c.head(), c.targets, everything(1, 4));
  EXPECT_TRUE(values.logprobs.requires_grad() && values.entropy.requires_grad());
  EXPECT_FALSE(values.log_sum_p2.requires_grad() || values.mean_logit.requires_grad() ||
               values.top1.requires_grad());
}

TEST(TokenLogprobsResult, CountsOnlyTheFirstOfEqualLogitsAsMostProbable) {
  const auto weight = torch::tensor({{0.0f}, {1.0f}, {1.0f}});
  const auto values = token_logprobs(
      torch::ones({3, 1}), {.weight = weight}, torch::tensor({0, 1, 2}), {.top1 = true});
  EXPECT_TRUE(bitwise_equal(values.top1, torch::tensor({0.0f, 1.0f, 0.0f})));
}

TEST(TokenLogprobsResult, IsZeroWithZeroGradientsWhereAllIsIgnored) {
  auto c = make_case();
  c.targets.fill_(kIgnoredLabel);
  const auto values = token_logprobs(c.hidden, c.head(), c.targets, everything(1, 0));
  for (const auto& value : listed(values)) {
    EXPECT_TRUE(bitwise_equal(value, torch::zeros(c.targets.sizes())));
  }
  const auto found = gradients(weighted(values, c.targets), c.leaves());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(found[i], torch::zeros_like(c.leaves()[i])));
  }
}

TEST(TokenLogprobsMisuse, IsRefusedWithWhatToDo) {
  const auto c = make_case();
  const auto message = [&](const at::Tensor& hidden,
                           const LinearHead& head,
                           const at::Tensor& targets,
                           const TokenRequests& requests = {}) {
    return message_of<c10::Error>([&] { token_logprobs(hidden, head, targets, requests); });
  };
  EXPECT_TRUE(contains(message(c.hidden, c.head(), torch::full_like(c.targets, 13)),
                       "expected targets from 0 to 12, or -100"));
  EXPECT_TRUE(contains(message(c.hidden, c.head(), c.targets.slice(1, 1)),
                       "expected hidden (..., H) and int64 targets (...)"));
  EXPECT_TRUE(contains(message(c.hidden, {.weight = c.weight.t()}, c.targets),
                       "expected a weight (V, 6), got [6, 13]"));
  EXPECT_TRUE(
      contains(message(c.hidden, {.weight = c.weight, .bias = c.bias.slice(0, 1)}, c.targets),
               "expected a bias (13), got [12]"));
  EXPECT_TRUE(contains(message(c.hidden.to(at::kBFloat16), c.head(), c.targets),
                       "convert one, use autocast, or set in_float32"));
  EXPECT_TRUE(contains(message(c.hidden, c.head(), c.targets, {.temperature = 0}),
                       "expected a temperature above 0"));
  EXPECT_TRUE(contains(message(c.hidden, c.head(), c.targets, {.chunks = {.tokens = -1}}),
                       "expected a number of tokens per chunk"));
}

TEST(TokenLogprobsMisuse, SecondDerivativesAreRefused) {
  const auto c = make_case();
  const auto values = token_logprobs(c.hidden, c.head(), c.targets);
  EXPECT_TRUE(contains(message_of<c10::Error>([&] {
                         torch::autograd::grad({values.logprobs.sum()},
                                               {c.hidden},
                                               {},
                                               /*retain_graph=*/true,
                                               /*create_graph=*/true);
                       }),
                       "differentiable once"));
}

}  // namespace
}  // namespace reprise::testing
