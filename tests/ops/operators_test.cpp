// The fused operators by their references: values against the plain formula, gradients against
// central differences, and what a region that is computed again pays for them.
#include "ops/add_rounded.h"
#include "ops/cross_entropy.h"
#include "ops/gated.h"
#include "ops/linear/gated_linear.h"
#include "ops/linear/linear_add.h"
#include "ops/linear/qkv_rope.h"
#include "ops/reference.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/token_sums.h"
#include "support/bitwise.h"
#include "support/kernel_calls.h"
#include "support/numeric_gradient.h"
#include "support/tensors.h"

#include <reprise/checkpoint.h>

#include <gtest/gtest.h>

#include <vector>

namespace reprise::ops {
namespace {

using testing::expect_numeric_gradients;
using testing::Inputs;

at::Tensor random_doubles(at::IntArrayRef sizes) {
  return torch::randn(sizes, torch::kDouble);
}

class Operators : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(0); }
};

TEST_F(Operators, RmsNormIsItsFormula) {
  const auto x = random_doubles({2, 3, 5}), weight = random_doubles({5});
  const auto expected = x / (x.square().mean(-1, true) + 1e-3).sqrt() * weight;
  EXPECT_TRUE(at::allclose(rms_norm(x, weight, 1e-3), expected));
}

TEST_F(Operators, RmsNormHasItsGradients) {
  expect_numeric_gradients([](const Inputs& in) { return rms_norm(in[0], in[1], 1e-3); },
                           {random_doubles({2, 3, 5}), random_doubles({5})});
}

TEST_F(Operators, RmsNormAddsAnOffsetToItsWeightWithoutRoundingTheSum) {
  const auto x = random_doubles({2, 3, 5}), weight = random_doubles({5});
  EXPECT_TRUE(at::allclose(rms_norm(x, {weight, 1.0}, 1e-3), rms_norm(x, weight + 1, 1e-3)));
  expect_numeric_gradients(
      [](const Inputs& in) {
        const auto fork = fork_rms_norm(in[0], {in[1], 1.0}, 1e-3);
        return fork.residual * 3 + fork.normed.square();
      },
      {random_doubles({2, 3, 5}), random_doubles({5})});
  // 1 + 2^-9 is no bfloat16.
  const auto small = torch::full({5}, 0x1p-9, at::kBFloat16), row = x.to(at::kFloat);
  EXPECT_TRUE(
      at::equal(rms_norm(row, {small, 1.0}, 1e-3), rms_norm(row, small.to(at::kFloat) + 1, 1e-3)));
}

TEST_F(Operators, AForkedStreamAddsItsGradientToTheNorms) {
  expect_numeric_gradients(
      [](const Inputs& in) {
        const auto fork = fork_rms_norm(in[0], in[1], 1e-3);
        return fork.residual * 3 + fork.normed.square();
      },
      {random_doubles({2, 3, 5}), random_doubles({5})});
  // Each alone, too: the other's gradient is then undefined.
  expect_numeric_gradients(
      [](const Inputs& in) { return fork_rms_norm(in[0], in[1], 1e-3).residual + 0 * in[1]; },
      {random_doubles({2, 5}), random_doubles({5})});
  expect_numeric_gradients(
      [](const Inputs& in) { return fork_rms_norm(in[0], in[1], 1e-3).normed; },
      {random_doubles({2, 5}), random_doubles({5})});
}

TEST_F(Operators, RmsNormRoundsOnce) {
  const auto x = torch::randn({4, 64}).to(at::kBFloat16),
             weight = torch::randn({64}).to(at::kBFloat16);
  const auto exact = rms_norm(x.to(at::kDouble), weight.to(at::kDouble), 1e-6);
  EXPECT_TRUE(at::equal(rms_norm(x, weight, 1e-6), exact.to(at::kFloat).to(at::kBFloat16)));
}

TEST_F(Operators, GatedHasItsGradientsForEveryActivation) {
  for (const auto kind : {Activation::Silu,
                          Activation::Gelu,
                          Activation::GeluTanh,
                          Activation::Relu,
                          Activation::SquaredRelu}) {
    expect_numeric_gradients([&](const Inputs& in) { return gated(in[0], kind); },
                             {random_doubles({2, 3, 8})});
  }
}

TEST_F(Operators, LinearAddHasItsGradients) {
  expect_numeric_gradients([](const Inputs& in) { return linear_add(in[0], in[1], in[2], in[3]); },
                           {random_doubles({2, 3, 4}),
                            random_doubles({5, 4}),
                            random_doubles({5}),
                            random_doubles({2, 3, 5})});
  expect_numeric_gradients(
      [](const Inputs& in) { return linear_add(in[0], in[1], {}, in[2]); },
      {random_doubles({2, 3, 4}), random_doubles({5, 4}), random_doubles({2, 3, 5})});
}

TEST_F(Operators, GatedLinearHasItsGradients) {
  for (const bool has_bias : {false, true}) {
    Inputs inputs{random_doubles({2, 3, 8}), random_doubles({5, 4}), random_doubles({2, 3, 5})};
    if (has_bias) {
      inputs.push_back(random_doubles({5}));
    }
    expect_numeric_gradients(
        [&](const Inputs& in) {
          return gated_linear(
              in[0] * 1, Activation::Silu, in[1], has_bias ? in[3] : at::Tensor(), in[2]);
        },
        inputs);
  }
  expect_numeric_gradients(
      [](const Inputs& in) { return gated_linear(in[0] * 1, Activation::Silu, in[1], {}, {}); },
      {random_doubles({2, 3, 8}), random_doubles({5, 4})});
}

TEST_F(Operators, GatedLinearCanBeDifferentiatedAgainIfTheGraphIsRetained) {
  const auto both = random_doubles({2, 3, 8}).requires_grad_(),
             weight = random_doubles({5, 4}).requires_grad_();
  const auto y =
      gated_linear(both * 1, Activation::Gelu, weight, {}, random_doubles({2, 3, 5})).sum();
  const auto first = torch::autograd::grad({y}, {both, weight}, {}, /*retain_graph=*/true);
  const auto second = torch::autograd::grad({y}, {both, weight});
  testing::expect_bitwise_equal(first, second);
}

struct RopeGradientCase {
  int64_t rotary_dims;
  bool interleaved, has_bias, tables_per_batch;
};

TEST_F(Operators, QkvRopeHasItsGradients) {
  for (const auto& which : {RopeGradientCase{4, false, false, false},
                            RopeGradientCase{4, true, true, true},
                            RopeGradientCase{2, false, true, true},
                            RopeGradientCase{2, true, false, false}}) {
    const HeadLayout layout{.heads = 4,
                            .kv_heads = 2,
                            .head_dim = 4,
                            .rotary_dims = which.rotary_dims,
                            .interleaved = which.interleaved};
    const auto angles = torch::randn({which.tables_per_batch ? 2 : 1, 1, 3, which.rotary_dims / 2});
    const auto cos = angles.cos(), sin = angles.sin();
    Inputs inputs{random_doubles({2, 3, 5}), random_doubles({32, 5})};
    if (which.has_bias) {
      inputs.push_back(random_doubles({32}));
    }
    for (const int part : {0, 1, 2, 3}) {  // each alone: the others' gradients are undefined
      expect_numeric_gradients(
          [&](const Inputs& in) {
            const auto heads =
                qkv_rope(in[0], in[1], in.size() > 2 ? in[2] : at::Tensor(), {}, cos, sin, layout);
            return part == 0   ? heads.query.flatten()
                   : part == 1 ? heads.key.flatten()
                   : part == 2 ? heads.value.flatten()
                               : at::cat({heads.query, heads.key, heads.value}, 1);
          },
          inputs);
    }
  }
}

TEST_F(Operators, QkvRopeKeepsWhatAttentionComputesOfPositions) {
  // Scores depend on the distance of two positions only.
  const HeadLayout layout{.heads = 1, .kv_heads = 1, .head_dim = 4, .rotary_dims = 4};
  const auto x = random_doubles({1, 1, 6}).expand({1, 8, 6}), weight = random_doubles({12, 6});
  const auto angles = (at::arange(8, at::kFloat).view({1, 1, 8, 1}) * torch::tensor({1.0, 0.1}));
  const auto heads = qkv_rope(x, weight, {}, {}, angles.cos(), angles.sin(), layout);
  const auto scores = at::matmul(heads.query, heads.key.transpose(-1, -2))[0][0];
  for (int64_t i = 0; i + 3 < 8; ++i) {
    EXPECT_NEAR(scores[i + 3][i].item<double>(), scores[3][0].item<double>(), 1e-5);
  }
}

TEST_F(Operators, RopeHasItsGradientsAndIsUndoneByTheTurnBack) {
  const auto angles = torch::randn({2, 1, 3, 2});
  const auto cos = angles.cos(), sin = angles.sin();
  for (const bool interleaved : {false, true}) {
    const Rotation forth{.dims = 4, .interleaved = interleaved};
    const Rotation back{.dims = 4, .interleaved = interleaved, .is_inverse = true};
    const auto x = random_doubles({2, 2, 3, 6});
    expect_numeric_gradients([&](const Inputs& in) { return rope(in[0], cos, sin, forth); }, {x});
    EXPECT_TRUE(at::allclose(rope(rope(x, cos, sin, forth), cos, sin, back), x, 1e-5, 1e-5));
    const auto leaf = x.clone().requires_grad_();
    const auto slope_of_slope = [&](const at::Tensor& y) {
      const auto slope = torch::autograd::grad({y.pow(3).sum()}, {leaf}, {}, true, true)[0];
      return torch::autograd::grad({slope.square().sum()}, {leaf})[0];
    };
    EXPECT_TRUE(
        at::allclose(slope_of_slope(rope(leaf, cos, sin, forth)),
                     slope_of_slope(reference::rope(leaf, cos, sin, 4, interleaved, false))));
  }
}

TEST_F(Operators, CrossEntropyOverwritesLogitsWithTheirGradient) {
  const auto logits = random_doubles({4, 7});
  const auto targets = torch::tensor({0, 3, 6, 2}, torch::kLong);
  auto leaf = logits.clone().requires_grad_();
  const auto expected = -leaf.log_softmax(1).gather(1, targets.unsqueeze(1)).squeeze(1);
  expected.sum().backward();
  auto buffer = logits.clone();
  const auto rows = cross_entropy_(buffer, targets, /*weighted=*/false);
  EXPECT_TRUE(at::allclose(rows.losses, expected));
  EXPECT_TRUE(at::allclose(buffer, leaf.grad()));
  const auto p = logits.softmax(1);
  EXPECT_TRUE(at::allclose(rows.entropies, -(p * p.log()).sum(1)));
  EXPECT_TRUE(at::equal(rows.hits, (logits.argmax(1) == targets).to(at::kDouble)));
}

TEST_F(Operators, CrossEntropyTakesLogitsOfMinusInfinity) {
  auto logits = random_doubles({2, 5});
  logits.select(1, 3).fill_(-std::numeric_limits<double>::infinity());
  const auto rows = cross_entropy_(logits, torch::tensor({0, 1}, torch::kLong), false);
  EXPECT_TRUE(rows.entropies.isfinite().all().item<bool>());
  EXPECT_TRUE((logits.select(1, 3) == 0).all().item<bool>());
}

TEST_F(Operators, TokenSumsAndTheirSlopesAreAutogradsOwn) {
  constexpr double kScale = 0.7;
  const auto logits = random_doubles({4, 7}), a = random_doubles({4}), b = random_doubles({4});
  const auto targets = torch::tensor({0, 3, 6, 2}, torch::kLong);
  const auto leaf = logits.clone().requires_grad_();
  const auto logp = (leaf * kScale).log_softmax(1);
  const auto logprobs = logp.gather(1, targets.unsqueeze(1)).squeeze(1);
  const auto entropies = -(logp.exp() * logp).sum(1);
  const auto sums = token_sums(logits, targets, kScale, /*has_entropy=*/true);
  EXPECT_TRUE(at::allclose(sums.logprobs, logprobs));
  EXPECT_TRUE(at::allclose(sums.entropies, entropies));
  EXPECT_TRUE(at::allclose(sums.log_sums, (logits * kScale).logsumexp(1)));
  EXPECT_TRUE(at::equal(sums.hits, (logits.argmax(1) == targets).to(at::kDouble)));
  EXPECT_FALSE(token_sums(logits, targets, kScale, false).entropies.defined());

  const auto expect_slopes = [&](const TokenGradients& gradients, const at::Tensor& loss) {
    auto buffer = logits.clone();
    token_slopes_(buffer, targets, sums.log_sums, sums.entropies, gradients, kScale);
    const auto expected =
        torch::autograd::grad({loss}, {leaf}, {}, /*retain_graph=*/true)[0] / kScale;
    EXPECT_TRUE(at::allclose(buffer, expected));
  };
  expect_slopes({.logprobs = a, .entropies = {}}, (logprobs * a).sum());
  expect_slopes({.logprobs = {}, .entropies = b}, (entropies * b).sum());
  expect_slopes({.logprobs = a, .entropies = b}, (logprobs * a + entropies * b).sum());
}

TEST_F(Operators, AddRoundedHasItsGradientsAndRoundsOnce) {
  expect_numeric_gradients([](const Inputs& in) { return add_rounded(in[0], in[1]); },
                           {random_doubles({2, 5}), random_doubles({2, 5})});
  const auto x = torch::randn({64}).to(at::kBFloat16), added = torch::randn({64});
  EXPECT_TRUE(at::equal(add_rounded(x, added), (x.to(at::kFloat) + added).to(at::kBFloat16)));
}

TEST_F(Operators, RefuseSizesThatDoNotFit) {
  const auto x = random_doubles({2, 3, 4}), weight = random_doubles({5, 4}),
             stream = random_doubles({2, 3, 5});
  EXPECT_THROW(linear_add(x, random_doubles({5, 3}), {}, stream), c10::Error);
  EXPECT_THROW(linear_add(x, weight, random_doubles({4}), stream), c10::Error);
  EXPECT_THROW(linear_add(x, weight, {}, random_doubles({1, 3, 5})), c10::Error);
  EXPECT_THROW(add_rounded(x, stream), c10::Error);
}

TEST_F(Operators, ARegionThatEndsInAProjectionDoesNotComputeItAgain) {
  const auto weight = random_doubles({6, 6}).requires_grad_(),
             last = random_doubles({6, 6}).requires_grad_();
  const auto x = random_doubles({2, 3, 6}).requires_grad_();
  const auto run = [&](const at::Tensor& in) {
    return linear_add(linear_add(in, weight, {}, in).tanh(), last, {}, in);
  };
  const auto loss = checkpoint(run, x).sum();
  const testing::KernelCalls calls("reprise", "linear_add");
  loss.backward();
  EXPECT_EQ(calls.get(), 1U);
}

TEST_F(Operators, RegionsGiveTheSameGradientsToTheLastBit) {
  const auto x = torch::randn({2, 3, 8}).requires_grad_();
  const auto norm = torch::randn({8}).requires_grad_();
  const auto up = torch::randn({16, 8}).requires_grad_(),
             down = torch::randn({8, 8}).requires_grad_();
  const auto run = [&](const at::Tensor& in) {
    const auto fork = fork_rms_norm(in, norm, 1e-6);
    return gated_linear(at::linear(fork.normed, up), Activation::Silu, down, {}, fork.residual);
  };
  const Inputs leaves{x, norm, up, down};
  const auto plain = torch::autograd::grad({run(x).square().sum()}, leaves);
  const auto again = torch::autograd::grad({checkpoint(run, x).square().sum()}, leaves);
  testing::expect_bitwise_equal(plain, again);
}

TEST_F(Operators, SayThatTheyAreDifferentiableOnce) {
  const auto x = random_doubles({2, 5}).requires_grad_(), weight = random_doubles({5});
  const auto y = rms_norm(x, weight, 1e-3).sum();
  try {
    torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true);
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("differentiable once"), std::string::npos);
  }
}

}  // namespace
}  // namespace reprise::ops
