// The chunked head in narrow types: what at::linear would compute in, under autocast too, and sums
// of gradients that stay in float32.
#include "loss/head_case.h"
#include "support/tensors.h"

#include <reprise/autocast.h>
#include <reprise/loss/head.h>

#include <gtest/gtest.h>

namespace reprise::testing {
namespace {

constexpr HeadChunks kOneToken{.tokens = 1};

/// Many tokens and few classes, so that every row of the weight gets a long sum.
CaseShape long_sum(at::DeviceType device) {
  return {.rows = 4,
          .length = 192,
          .width = 8,
          .vocabulary = 5,
          .has_bias = false,
          .type = at::kBFloat16,
          .device = device};
}

/// The gradient of logits that were rounded to bfloat16, and hidden rows, in float64.
struct ExactParts {
  at::Tensor slopes, rows;
};

ExactParts exact_parts(const HeadCase& c) {
  const auto logits = c.logits().detach().to(at::kDouble);
  const auto onehot = torch::one_hot(c.targets.clamp_min(0), logits.size(-1));
  const auto slopes = (logits.softmax(-1) - onehot) * c.counts().unsqueeze(-1);
  return {slopes.flatten(0, 1), c.hidden.detach().to(at::kDouble).flatten(0, 1)};
}

TEST(HeadGradient, IsSummedInFloat32ForABfloat16Head) {
  for (const auto device : devices()) {
    const auto c = make_case(long_sum(device));
    const auto [slopes, rows] = exact_parts(c);
    const auto exact = at::mm(slopes.t(), rows);
    auto narrow_sum = torch::zeros_like(c.weight.detach());
    for (int64_t i = 0; i < rows.size(0); ++i) {
      narrow_sum += at::outer(slopes[i], rows[i]).to(at::kBFloat16);
    }
    const auto ours = gradients(
        linear_cross_entropy(c.hidden, c.head(), c.targets, TokenWeighting::None, kOneToken).sum,
        {c.weight})[0];
    const auto logprobs =
        token_logprobs(c.hidden, c.head(), c.targets, {.chunks = kOneToken}).logprobs;
    const auto ours_recomputed = gradients(-logprobs.sum(), {c.weight})[0];
    EXPECT_EQ(ours.scalar_type(), at::kBFloat16);
    EXPECT_LT(relative_error(ours, exact) * 4, relative_error(narrow_sum, exact));
    EXPECT_LT(relative_error(ours_recomputed, exact) * 4, relative_error(narrow_sum, exact));
  }
}

TEST(HeadGradient, OfNarrowHiddenStatesHasTheirType) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const auto wide = make_case({.type = at::kDouble});
    const auto narrow = make_case({.type = type});
    const auto expected =
        gradients(linear_cross_entropy(wide.hidden, wide.head(), wide.targets).sum, wide.leaves());
    const auto ours = gradients(
        linear_cross_entropy(narrow.hidden, narrow.head(), narrow.targets).sum, narrow.leaves());
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i].scalar_type(), type);
      EXPECT_LT(relative_error(ours[i], expected[i]), 0.05);
    }
  }
}

struct Losses {
  at::Tensor cross_entropy, logprobs, divergence, distillation;

  std::vector<at::Tensor> list() const {
    return {cross_entropy, logprobs, divergence, distillation};
  }
};

Losses chunked(const HeadCase& c, const LinearHead& head) {
  const auto teacher = c.hidden.detach().flip({0});
  return {linear_cross_entropy(c.hidden, head, c.targets).sum,
          token_logprobs(c.hidden, head, c.targets).logprobs.sum(),
          linear_divergence(c.hidden, head, teacher, head, c.targets).sum(),
          linear_distillation(c.hidden, head, teacher, head, c.targets, {.coefficient = 0.25}).sum};
}

/// From whole logits, in float32 from there on.
Losses whole(const HeadCase& c) {
  const auto logp = at::linear(c.hidden, c.weight, c.bias).to(at::kFloat).log_softmax(-1);
  const auto counts = c.counts();
  const auto picked = (logp.gather(-1, c.safe_targets()).squeeze(-1) * counts).sum();
  const auto teacher = at::linear(c.hidden.detach().flip({0}), c.weight, c.bias).to(at::kFloat);
  const auto taught = -((teacher.softmax(-1).detach() * logp).sum(-1) * counts).sum();
  return {-picked, picked, taught, taught * 0.25 - picked * 0.75};
}

TEST(HeadUnderAutocast, ComputesAsLinearDoesAlsoInABackwardOutsideOfIt) {
  for (const auto device : devices()) {
    const auto c = make_case({.width = 64, .device = device});
    Losses ours, expected;
    {
      const AutocastScope autocast(device);
      ours = chunked(c, c.head());
      expected = whole(c);
    }
    const auto exact = whole(c);
    for (size_t i = 0; i < ours.list().size(); ++i) {
      EXPECT_LT(relative_error(ours.list()[i], expected.list()[i]), 1e-6) << i;
      EXPECT_GT(relative_error(exact.list()[i], expected.list()[i]), 1e-5) << i;
      const auto our_gradients = gradients(ours.list()[i], c.leaves());
      const auto expected_gradients = gradients(expected.list()[i], c.leaves());
      for (size_t leaf = 0; leaf < our_gradients.size(); ++leaf) {
        EXPECT_EQ(our_gradients[leaf].scalar_type(), at::kFloat);
        EXPECT_LT(relative_error(our_gradients[leaf], expected_gradients[leaf]), 0.01) << i;
      }
    }
  }
}

TEST(HeadInFloat32, IgnoresAutocast) {
  const auto c = make_case({.width = 64});
  auto head = c.head();
  head.in_float32 = true;
  const auto exact = whole(c).list();
  std::vector<std::vector<at::Tensor>> exact_gradients;
  for (const auto& loss : exact) {
    exact_gradients.push_back(gradients(loss, c.leaves()));
  }
  // Backward inside of it too, as some programs do.
  const AutocastScope autocast(c10::kCPU);
  const auto ours = chunked(c, head).list();
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_LT(relative_error(ours[i], exact[i]), 1e-6) << i;
    expect_close(gradients(ours[i], c.leaves()), exact_gradients[i], tolerance_of(at::kFloat));
  }
}

TEST(HeadInFloat32, RoundsNothingButTheGradientsOfNarrowTensors) {
  const auto narrow = make_case({.width = 64, .type = at::kBFloat16});
  auto head = narrow.head();
  head.in_float32 = true;
  auto wide = narrow;
  for (auto* leaf : {&wide.hidden, &wide.weight, &wide.bias}) {
    *leaf = leaf->detach().to(at::kFloat).set_requires_grad(true);
  }
  const auto ours = chunked(narrow, head).list(), exact = whole(wide).list();
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_LT(relative_error(ours[i], exact[i]), 1e-6) << i;
    const auto found = gradients(ours[i], narrow.leaves());
    const auto expected = gradients(exact[i], wide.leaves());
    for (size_t leaf = 0; leaf < found.size(); ++leaf) {
      EXPECT_EQ(found[leaf].scalar_type(), at::kBFloat16);
      EXPECT_LT(relative_error(found[leaf], expected[leaf]), 1.0 / 256) << i;
    }
  }
}

}  // namespace
}  // namespace reprise::testing
