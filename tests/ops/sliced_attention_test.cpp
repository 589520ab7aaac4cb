// Attention in slices of queries: the formula, its gradients, one operator in a region, and no
// scores of T x T.
#include "ops/sliced_attention.h"
#include "support/bitwise.h"
#include "support/kernel_calls.h"
#include "support/numeric_gradient.h"
#include "support/parity.h"

#include <reprise/checkpoint.h>
#include <reprise/memory.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace reprise::ops {
namespace {

using testing::expect_numeric_gradients;
using testing::Inputs;

// q, k and v with `past` keys before those of the queries.
Inputs heads(int64_t length, int64_t past, at::ScalarType type = at::kDouble) {
  torch::manual_seed(3);
  return {torch::randn({2, 4, length, 3}, type),
          torch::randn({2, 2, past + length, 3}, type),
          torch::randn({2, 2, past + length, 3}, type)};
}

// With whole scores.
at::Tensor plain(const Inputs& in, const SlicedAttention& options) {
  const int64_t length = in[0].size(2), total = in[1].size(2);
  const auto shared = [&](const at::Tensor& x) { return x.repeat_interleave(2, 1); };
  auto scores = at::matmul(in[0], shared(in[1]).transpose(-1, -2)) * options.scale;
  if (options.softcap > 0) {
    scores = (scores / options.softcap).tanh() * options.softcap;
  }
  const auto keys = torch::arange(total), queries = torch::arange(total - length, total);
  const auto distance = keys - queries.unsqueeze(1);
  if (options.key_bias.defined()) {
    scores = scores + options.key_bias.unsqueeze(2);
  }
  auto hidden = (distance > 0).expand({2, 1, length, total});
  if (options.window > 0) {
    hidden = hidden | (distance <= -options.window);
  }
  if (options.runs.defined()) {
    const auto& runs = options.runs;
    hidden =
        hidden | (runs.unsqueeze(1) != runs.slice(1, total - length).unsqueeze(2)).unsqueeze(1);
  }
  scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  return at::matmul(scores.softmax(-1), shared(in[2]));
}

// Every feature alone, and all together, for rows of `total` keys.
std::vector<std::pair<std::string, SlicedAttention>> features(int64_t total) {
  auto runs = torch::zeros({2, total}, at::kLong);
  runs[0].slice(0, total / 3).fill_(4);
  runs[1].slice(0, 0, 2).fill_(-1);
  const auto bias = torch::rand({2, 4, total}, at::kDouble);
  return {{"plain", {.scale = 0.6}},
          {"soft cap", {.scale = 0.6, .softcap = 1.5}},
          {"window", {.scale = 0.6, .window = 3}},
          {"runs", {.scale = 0.6, .runs = runs}},
          {"bias", {.scale = 0.6, .key_bias = bias}},
          {"one bias for all rows", {.scale = 0.6, .key_bias = bias.narrow(0, 1, 1)}},
          {"all", {.scale = 0.6, .softcap = 1.5, .window = 3, .runs = runs, .key_bias = bias}}};
}

TEST(SlicedAttention, IsItsFormulaForEveryFeature) {
  for (const auto& [length, past] :
       std::vector<std::pair<int64_t, int64_t>>{{7, 0}, {3, 4}, {1, 6}}) {
    const auto in = heads(length, past);
    for (const auto& [name, options] : features(past + length)) {
      EXPECT_TRUE(at::allclose(sliced_attention(in[0], in[1], in[2], options), plain(in, options)))
          << name << ", " << length << " queries";
    }
  }
}

TEST(SlicedAttention, HasTheGradientsOfCentralDifferences) {
  for (const auto& [name, options] : features(6)) {
    SCOPED_TRACE(name);
    expect_numeric_gradients(
        [options = options](const Inputs& in) {
          return sliced_attention(in[0], in[1], in[2], options).square();
        },
        heads(4, 2));
  }
}

TEST(SlicedAttention, IsTheSameOverManySlices) {
  const int64_t length = 600;  // of at most 256 queries each
  auto in = heads(length, 0);
  for (auto& tensor : in) {
    tensor.requires_grad_();
  }
  auto shapes = features(length);
  for (auto& [name, options] : shapes) {
    options.window = options.window > 0 ? 40 : 0;
    const auto ours = sliced_attention(in[0], in[1], in[2], options), expected = plain(in, options);
    EXPECT_LT(testing::relative_error(ours, expected), 1e-12) << name;
    const auto weights = torch::randn_like(expected);
    const auto ours_gradients = torch::autograd::grad({ours}, in, {weights});
    const auto expected_gradients = torch::autograd::grad({expected}, in, {weights});
    for (size_t i = 0; i < in.size(); ++i) {
      EXPECT_LT(testing::relative_error(ours_gradients[i], expected_gradients[i]), 1e-12) << name;
    }
  }
}

TEST(SlicedAttention, DropsTheSameProbabilitiesInBackward) {
  const SlicedAttention options{.scale = 0.6, .softcap = 1.5, .dropout = 0.4};
  expect_numeric_gradients(
      [&](const Inputs& in) {
        torch::manual_seed(5);  // for each of the central differences
        return sliced_attention(in[0], in[1], in[2], options);
      },
      heads(4, 2));
  // The mean over many draws is the result without dropout.
  const auto in = heads(4, 0);
  const auto exact = sliced_attention(in[0], in[1], in[2], {.scale = 0.6, .softcap = 1.5});
  auto sum = torch::zeros_like(exact);
  for (int draw = 0; draw < 2000; ++draw) {
    sum += sliced_attention(in[0], in[1], in[2], options);
  }
  EXPECT_LT(testing::relative_error(sum / 2000, exact), 0.05);
}

TEST(SlicedAttention, RoundsSixteenBitTypesOnceAfterSumsInFloat32) {
  const auto wide = heads(50, 0, at::kFloat);
  const auto options = features(50).back().second;
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    Inputs in;
    Inputs exact;
    for (const auto& tensor : wide) {
      in.push_back(tensor.to(type));
      exact.push_back(in.back().to(at::kDouble));
    }
    const auto ours = sliced_attention(in[0], in[1], in[2], options);
    EXPECT_EQ(ours.scalar_type(), type);
    EXPECT_LT(testing::relative_error(ours, plain(exact, options)),
              type == at::kHalf ? 0.002 : 0.015);
  }
}

TEST(SlicedAttention, IsOneOperatorThatAPolicyCanKeep) {
  auto x = torch::randn({1, 2, 9, 4});
  x.requires_grad_();
  const auto run = [](const at::Tensor& in) {
    const auto y = sliced_attention(in, in.sin(), in.cos(), {.scale = 0.5, .softcap = 2});
    return y.exp();
  };
  const auto gradient = [&](const CheckpointOptions& options) {
    return torch::autograd::grad({checkpoint(options, run, x).sum()}, {x}).front();
  };
  const auto expected = torch::autograd::grad({run(x).sum()}, {x}).front();
  testing::KernelCalls calls("reprise", "sliced_attention");
  EXPECT_TRUE(testing::bitwise_equal(gradient({}), expected));
  EXPECT_EQ(calls.get(), 2U);
  EXPECT_TRUE(testing::bitwise_equal(gradient({.policy = policy::save_attention()}), expected));
  EXPECT_EQ(calls.get(), 3U);
}

TEST(SlicedAttention, NeverHasSquareScores) {
  const int64_t length = 2048, square = 2 * length * length * 4;  // 34 MB
  Inputs in;
  for (int i = 0; i < 3; ++i) {
    in.push_back(torch::randn({1, 2, length, 8}).requires_grad_());
  }
  const int64_t before = live_bytes(at::kCPU);
  const PeakTracker tracker(at::kCPU);
  const auto y = sliced_attention(in[0], in[1], in[2], {.scale = 0.3, .softcap = 2});
  // The result, and one number for each head of a query.
  EXPECT_LE(live_bytes(at::kCPU) - before, 2 * length * (8 + 1) * 4 + 1024);
  torch::autograd::grad({y.sum()}, in);
  EXPECT_LT(tracker.peak() - before, square * 3 / 4);
  // A window leaves out keys that no query of a slice sees.
  const PeakTracker windowed(at::kCPU);
  const int64_t live = live_bytes(at::kCPU);
  torch::autograd::grad(
      {sliced_attention(in[0], in[1], in[2], {.scale = 0.3, .softcap = 2, .window = 64}).sum()},
      in);
  EXPECT_LT(windowed.peak() - live, square / 6);
}

TEST(SlicedAttention, RefusesWhatDoesNotFitTogether) {
  const auto in = heads(3, 0);
  const auto refuses = [&](const SlicedAttention& options) {
    EXPECT_THROW(sliced_attention(in[0], in[1], in[2], options), c10::Error);
  };
  refuses({.runs = torch::zeros({2, 4}, at::kLong)});
  refuses({.runs = torch::zeros({2, 3})});
  refuses({.key_bias = torch::ones({3, 4, 3})});
  refuses({.key_bias = torch::ones({1, 4, 2})});
  refuses({.dropout = 1});
  refuses({.softcap = -1});
  EXPECT_THROW(sliced_attention(in[1], in[0], in[0], {}), c10::Error);
  EXPECT_THROW(sliced_attention(in[0].to(at::kFloat), in[1], in[2], {}), c10::Error);
}

}  // namespace
}  // namespace reprise::ops
