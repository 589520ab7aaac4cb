// Linear layers with LoRA adapters: values against the formula, gradients against central
// differences, dropout that backward and recompute find again, and what is kept for backward.
#include "ops/drop.h"
#include "ops/drop_case.h"
#include "ops/linear/adapted_linear.h"
#include "ops/linear/adapted_sum.h"
#include "ops/linear/gated_linear.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_add.h"
#include "ops/linear/qkv_rope.h"
#include "ops/reference.h"
#include "support/bitwise.h"
#include "support/error_text.h"
#include "support/kernel_calls.h"
#include "support/numeric_gradient.h"
#include "support/tensors.h"

#include <reprise/checkpoint.h>
#include <reprise/memory.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise::ops {
namespace {

using testing::expect_numeric_gradients;
using testing::Inputs;
using testing::kDropout;
using testing::seed_of;

at::Tensor doubles(at::IntArrayRef sizes) {
  return torch::randn(sizes, torch::kDouble);
}

// Ranks 2 and 3 at columns 0 to 4 and 5 to 8, from a, b, a, b.
Adapters two_adapters(const Inputs& factors, bool drops = false) {
  Adapters adapters{.a = {factors[0], factors[2]},
                    .b = {factors[1], factors[3]},
                    .starts = {0, 5},
                    .scales = {2, 0.5}};
  if (drops) {
    adapters.dropout = kDropout;
    adapters.seed = seed_of(5);
  }
  return adapters;
}

Inputs random_factors(int64_t in) {
  return {doubles({2, in}), doubles({4, 2}), doubles({3, in}), doubles({3, 3})};
}

// Which values of x are kept, divided by their probability.
at::Tensor kept_of(const at::Tensor& x, const Adapters& adapters) {
  if (!adapters.seed.defined()) {
    return torch::ones_like(x);
  }
  auto kept = torch::empty_like(x);
  drop_into(kept, torch::ones_like(x), adapters.seed, adapters.dropout, 0, /*adds=*/false);
  return kept / (1 - adapters.dropout);
}

// The formula, differentiable by autograd.
at::Tensor plain_sum(const at::Tensor& product, const at::Tensor& x, const Adapters& adapters) {
  auto sum = product;
  const auto dropped = x * kept_of(x.detach(), adapters);
  for (size_t i = 0; i < adapters.a.size(); ++i) {
    const auto added = at::linear(at::linear(dropped, adapters.a[i]), adapters.b[i]);
    const int64_t behind = product.size(-1) - adapters.starts[i] - added.size(-1);
    sum = sum + at::constant_pad_nd(added * adapters.scales[i], {adapters.starts[i], behind});
  }
  return sum;
}

class AdapterOperators : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { torch::manual_seed(0); }
  bool drops() const { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Dropout, AdapterOperators, ::testing::Bool(), [](const auto& test) {
  return test.param ? "some" : "none";
});

TEST_P(AdapterOperators, LinearIsItsFormulaAndHasItsGradients) {
  auto inputs = random_factors(4);
  for (const auto& more : {doubles({2, 3, 4}), doubles({9, 4}), doubles({9}), doubles({2, 3, 9})}) {
    inputs.push_back(more);
  }
  const auto adapters = two_adapters(inputs, drops());
  const auto found = adapted_linear(inputs[4], inputs[5], inputs[6], inputs[7], adapters);
  const auto product = at::linear(inputs[4], inputs[5], inputs[6]) + inputs[7];
  EXPECT_TRUE(at::allclose(found, plain_sum(product, inputs[4], adapters)));
  expect_numeric_gradients(
      [&](const Inputs& in) {
        return adapted_linear(in[4], in[5], in[6], in[7], two_adapters(in, drops()));
      },
      inputs);
  expect_numeric_gradients(
      [&](const Inputs& in) {
        return adapted_linear(in[4], in[5], {}, {}, two_adapters(in, drops())) +
               0 * (in[6] + in[7]);
      },
      inputs);
}

TEST_P(AdapterOperators, SumIsItsFormulaAndHasItsGradients) {
  auto inputs = random_factors(4);
  inputs.push_back(doubles({2, 3, 9}));
  inputs.push_back(doubles({2, 3, 4}));
  const auto adapters = two_adapters(inputs, drops());
  EXPECT_TRUE(at::allclose(adapted_sum(inputs[4], inputs[5], adapters),
                           plain_sum(inputs[4], inputs[5], adapters)));
  expect_numeric_gradients(
      [&](const Inputs& in) { return adapted_sum(in[4], in[5], two_adapters(in, drops())); },
      inputs);
}

TEST_P(AdapterOperators, GatedLinearHasItsGradients) {
  auto inputs = random_factors(4);
  for (const auto& more : {doubles({2, 3, 8}), doubles({9, 4}), doubles({2, 3, 9})}) {
    inputs.push_back(more);
  }
  expect_numeric_gradients(
      [&](const Inputs& in) {
        return gated_linear(
            in[4] * 1, Activation::Silu, in[5], {}, in[6], two_adapters(in, drops()));
      },
      inputs);
}

TEST_P(AdapterOperators, GatedLinearCanBeDifferentiatedAgainIfTheGraphIsRetained) {
  auto leaves = random_factors(4);
  leaves.push_back(doubles({2, 3, 8}));
  for (auto& leaf : leaves) {
    leaf.requires_grad_();
  }
  const auto y = gated_linear(leaves[4] * 1,
                              Activation::Gelu,
                              doubles({9, 4}),
                              {},
                              doubles({2, 3, 9}),
                              two_adapters(leaves, drops()))
                     .sum();
  const auto first = torch::autograd::grad({y}, leaves, {}, /*retain_graph=*/true);
  testing::expect_bitwise_equal(first, torch::autograd::grad({y}, leaves));
}

TEST_P(AdapterOperators, QkvRopeHasItsGradients) {
  const HeadLayout layout{.heads = 2, .kv_heads = 1, .head_dim = 4, .rotary_dims = 4};
  const auto angles = torch::randn({1, 1, 3, 2});
  auto inputs = random_factors(5);
  inputs.push_back(doubles({2, 3, 5}));
  inputs.push_back(doubles({16, 5}));
  for (const bool has_keys : {false, true}) {  // otherwise the gradients of keys are undefined
    expect_numeric_gradients(
        [&](const Inputs& in) {
          const auto heads = qkv_rope(
              in[4], in[5], {}, two_adapters(in, drops()), angles.cos(), angles.sin(), layout);
          return has_keys ? at::cat({heads.query, heads.key, heads.value}, 1)
                          : heads.query.flatten();
        },
        inputs);
  }
}

// Rows of more than one piece, and types that have to be converted.
TEST_P(AdapterOperators, TakeLongInputsOfNarrowTypesAPieceAtATime) {
  constexpr int64_t kIn = 2048, kRows = 1200;     // 512 rows of float32 are a piece
  const auto exact = [](at::IntArrayRef sizes) {  // in bfloat16
    return torch::randint(-2, 3, sizes).to(at::kDouble);
  };
  Inputs inputs{
      exact({2, kIn}), exact({4, 2}), exact({3, kIn}), exact({3, 3}), exact({kRows, kIn})};
  const auto weight = exact({9, kIn}), slope = exact({kRows, 9});
  const auto leaves_of = [&](at::ScalarType type, at::ScalarType type_of_x) {
    Inputs leaves;
    for (size_t i = 0; i < inputs.size(); ++i) {
      leaves.push_back(inputs[i].to(i == 4 ? type_of_x : type).requires_grad_());
    }
    return leaves;
  };
  const auto gradients_of = [&](const at::Tensor& y, const Inputs& leaves) {
    return torch::autograd::grad({y}, leaves, {slope.to(y.scalar_type())});
  };
  const auto wide = leaves_of(at::kDouble, at::kDouble);
  const auto expected =
      plain_sum(at::linear(wide[4], weight), wide[4], two_adapters(wide, drops()));
  const auto exact_gradients = gradients_of(expected, wide);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto leaves = leaves_of(at::kFloat, type);
    const auto found =
        adapted_linear(leaves[4], weight.to(type), {}, {}, two_adapters(leaves, drops()));
    const double bound = type == at::kFloat ? 1e-5 : 0x1p-7;
    const auto error = [](const at::Tensor& a, const at::Tensor& b) {
      return ((a.to(at::kDouble) - b).norm() / b.norm()).item<double>();
    };
    EXPECT_LE(error(found, expected.detach()), bound) << type;
    const auto gradients = gradients_of(found, leaves);
    for (size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_EQ(gradients[i].scalar_type(), leaves[i].scalar_type()) << i;
      EXPECT_LE(error(gradients[i], exact_gradients[i]), bound) << type << " input " << i;
    }
  }
}

TEST_P(AdapterOperators, ThatAddZeroLeaveTheProductAsItIs) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    auto factors = random_factors(64);
    for (auto& factor : factors) {
      factor = factor.to(at::kFloat);
    }
    factors[1].zero_();
    factors[3].zero_();
    const auto adapters = two_adapters(factors, drops());
    const auto x = torch::randn({2, 33, 64}).to(type), weight = torch::randn({9, 64}).to(type),
               stream = torch::randn({2, 33, 9}).to(type);
    EXPECT_TRUE(at::equal(adapted_linear(x, weight, {}, {}, adapters), ops::linear(x, weight, {})));
    EXPECT_TRUE(at::equal(adapted_linear(x, weight, {}, stream, adapters),
                          linear_add(x, weight, {}, stream)));
  }
}

TEST_P(AdapterOperators, OfOneInputAreThoseOfEachLayer) {
  const auto factors = random_factors(4);
  const auto x = doubles({2, 3, 4}), weight = doubles({9, 4});
  const auto all = two_adapters(factors, drops());
  const auto together = adapted_linear(x, weight, {}, {}, all);
  for (const size_t i : {0, 1}) {
    auto own = all;
    own.a = {all.a[i]};
    own.b = {all.b[i]};
    own.starts = {0};
    own.scales = {all.scales[i]};
    const int64_t columns = all.b[i].size(0);
    const auto alone = adapted_linear(x, weight.narrow(0, all.starts[i], columns), {}, {}, own);
    EXPECT_TRUE(at::allclose(together.narrow(-1, all.starts[i], columns), alone)) << i;
  }
}

TEST_P(AdapterOperators, TakeNoRows) {
  auto leaves = random_factors(4);
  for (auto& leaf : leaves) {
    leaf.requires_grad_();
  }
  const auto y =
      adapted_linear(doubles({0, 4}), doubles({9, 4}), {}, {}, two_adapters(leaves, drops()));
  EXPECT_EQ(y.sizes(), at::IntArrayRef({0, 9}));
  for (const auto& gradient : torch::autograd::grad({y.sum()}, leaves)) {
    EXPECT_EQ(gradient.abs().sum().item<double>(), 0);
  }
}

TEST_P(AdapterOperators, GiveTheSameBitsInARegion) {
  auto leaves = random_factors(4);
  leaves.push_back(doubles({2, 3, 4}));
  for (auto& leaf : leaves) {
    leaf.requires_grad_();
  }
  const auto weight = doubles({9, 4}), last = doubles({4, 9});
  const auto run = [&](const at::Tensor& x) {
    auto adapters = two_adapters(leaves);
    if (drops()) {
      adapters.dropout = kDropout;
      adapters.seed = draw_seed(x);
    }
    return at::linear(adapted_linear(x, weight, {}, {}, adapters).tanh(), last);
  };
  const auto gradients_of = [&](const auto& body) {
    torch::manual_seed(3);
    return torch::autograd::grad({body(leaves[4]).square().sum()}, leaves);
  };
  const auto plain = gradients_of(run);
  for (const auto& options :
       {CheckpointOptions{}, CheckpointOptions{.policy = policy::save_matmuls()}}) {
    testing::expect_bitwise_equal(
        gradients_of([&](const at::Tensor& x) { return checkpoint(options, run, x); }), plain);
  }
}

TEST(AdaptersInRegions, AreNotComputedAgainAtTheEndOfOne) {
  const auto factors = random_factors(4);
  auto adapters = two_adapters(factors);
  adapters.a[0].requires_grad_();
  const auto weight = doubles({9, 4});
  const auto x = doubles({2, 3, 4}).requires_grad_();
  const auto loss =
      checkpoint(
          [&](const at::Tensor& in) { return adapted_linear(in.tanh(), weight, {}, {}, adapters); },
          x)
          .sum();
  const testing::KernelCalls calls("reprise", "adapted_linear");
  loss.backward();
  EXPECT_EQ(calls.get(), 0U);
}

// Bytes that a graph keeps alive besides its result, in KiB: a tensor's header is not counted.
template <class Body>
int64_t kept_kib(const Body& body) {
  const int64_t before = live_bytes(at::kCPU);
  const auto result = body();
  return (live_bytes(at::kCPU) - before - static_cast<int64_t>(result.nbytes())) >> 10;
}

TEST(AdaptersInGraphs, KeepNothingButTheirInputAndTheSeed) {
  Inputs leaves;
  for (const auto& factor : random_factors(64)) {
    leaves.push_back(factor.to(at::kFloat).requires_grad_());
  }
  const auto weight = torch::randn({9, 64}).to(at::kBFloat16);
  const auto x = torch::randn({512, 64}).to(at::kBFloat16);
  auto adapters = two_adapters(leaves);
  const auto body = [&] { return adapted_linear(x.clone(), weight, {}, {}, adapters); };
  constexpr int64_t kRowsKib = 64;
  EXPECT_EQ(kept_kib(body), kRowsKib);
  adapters.dropout = kDropout;
  EXPECT_EQ(kept_kib([&] {
              adapters.seed = draw_seed(x);
              return body();
            }),
            kRowsKib);
}

TEST(AdaptersInGraphs, KeepNoInputIfNoneIsTrained) {
  Inputs factors;
  for (const auto& factor : random_factors(64)) {
    factors.push_back(factor.to(at::kFloat));
  }
  const auto weight = torch::randn({9, 64});
  const auto x = torch::randn({512, 64}).requires_grad_();
  const auto adapters = two_adapters(factors);
  EXPECT_EQ(kept_kib([&] { return adapted_linear(x.clone(), weight, {}, {}, adapters); }), 0);
}

TEST(Adapters, ThatDoNotFitAreRefused) {
  const auto x = doubles({2, 3, 4}), weight = doubles({9, 4});
  const auto refusal = [&](const auto& change) {
    auto adapters = two_adapters(random_factors(4));
    change(adapters);
    return testing::message_of<c10::Error>([&] { adapted_linear(x, weight, {}, {}, adapters); });
  };
  const auto expect = [&](const std::string& text, const auto& change) {
    EXPECT_TRUE(testing::contains(refusal(change), text)) << refusal(change);
  };
  expect("one behind the other in 9", [](Adapters& all) { all.starts[1] = 3; });
  expect("one behind the other in 9", [](Adapters& all) { all.starts[1] = 7; });
  expect("one behind the other in 9", [](Adapters& all) { all.a[1] = doubles({3, 5}); });
  expect("one behind the other in 9", [](Adapters& all) { all.b[0] = doubles({4, 3}); });
  expect("of one type", [](Adapters& all) { all.b[0] = all.b[0].to(at::kFloat); });
  expect("as many a, b, starts and scales", [](Adapters& all) { all.scales.pop_back(); });
  expect("a dropout in [0, 1)", [](Adapters& all) { all.dropout = 1; });
  const auto fit = two_adapters(random_factors(4));
  EXPECT_NO_THROW(adapted_linear(x, weight, {}, {}, fit));
  EXPECT_THROW(adapted_sum(doubles({2, 4, 9}), x, fit), c10::Error);
  EXPECT_THROW(adapted_sum(doubles({6, 9}), x, fit), c10::Error);
  EXPECT_NO_THROW(adapted_sum(doubles({2, 3, 9}), x, fit));
}

}  // namespace
}  // namespace reprise::ops
