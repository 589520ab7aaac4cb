// Linear operators over quantised weights: their values and gradients, what they keep for backward,
// and how often they dequantise.
#include "quant/quantized_rows.h"
#include "ops/linear/linear.h"
#include "quant/weight_case.h"
#include "support/bitwise.h"
#include "support/error_text.h"
#include "support/kernel_calls.h"
#include "support/numeric_gradient.h"

#include <reprise/autocast.h>
#include <reprise/checkpoint.h>
#include <reprise/memory.h>

#include <gtest/gtest.h>

namespace reprise::quant {
namespace {

using testing::bitwise_equal;

at::Tensor linear(const at::Tensor& x,
                  const std::shared_ptr<const QuantizedWeight>& weight,
                  const at::Tensor& bias) {
  return ops::linear(x, quantized_rows({weight}), bias);
}

std::vector<std::shared_ptr<const QuantizedWeight>> shared_weights(int64_t out, int64_t in) {
  std::vector<std::shared_ptr<const QuantizedWeight>> weights;
  for (const auto& weight : testing::random_weights(out, in)) {
    weights.push_back(std::make_shared<const QuantizedWeight>(weight));
  }
  return weights;
}

TEST(QuantizedRows, MakeALinearLayerOverTheDequantizedWeight) {
  for (const auto& weight : shared_weights(12, 70)) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble}) {
      const auto matrix = dequantize(*weight, type);
      const auto bias = torch::randn({12}).to(type).requires_grad_();
      const auto x = torch::randn({3, 5, 70}).to(type).requires_grad_();
      const auto y = linear(x, weight, bias);
      EXPECT_TRUE(at::allclose(y, at::linear(x, matrix, bias), 1e-2, 1e-2));
      y.square().sum().backward();
      const auto slope = (2 * y).detach();
      EXPECT_TRUE(at::allclose(x.grad(), at::matmul(slope, matrix), 1e-2, 1e-2));
      EXPECT_TRUE(at::allclose(bias.grad(), slope.sum({0, 1}), 1e-2, 1e-2));
    }
  }
}

TEST(QuantizedRows, HaveTheNumericGradient) {
  for (const auto& weight : shared_weights(6, 20)) {
    const auto factors = torch::randn({4, 6}, torch::kDouble);
    const auto fn = [&](const at::Tensor& x) { return (linear(x, weight, {}) * factors).sum(); };
    const auto x = torch::randn({4, 20}, torch::kDouble).requires_grad_();
    fn(x).backward();
    EXPECT_TRUE(at::allclose(x.grad(), testing::numeric_gradient(fn, x), 1e-6, 1e-8))
        << testing::name_of(*weight);
  }
}

TEST(QuantizedRows, KeepNothingForBackward) {
  track_cpu_memory();
  for (const auto& weight : shared_weights(256, 512)) {
    auto x = torch::randn({64, 512}).requires_grad_();
    const int64_t before = live_bytes(at::kCPU);
    reset_peak_bytes(at::kCPU);
    auto y = linear(x * 2, weight, {});  // x * 2 is an activation that nobody else keeps
    constexpr int64_t kRounding = 4096;  // of malloc
    const int64_t kept = live_bytes(at::kCPU) - before;
    EXPECT_LT(kept, static_cast<int64_t>(y.nbytes()) + kRounding) << testing::name_of(*weight);
    const int64_t matrix = int64_t{256} * 512 * 4;
    const auto all = static_cast<int64_t>(x.nbytes() + y.nbytes()) + matrix;
    EXPECT_LE(peak_bytes(at::kCPU) - before, all + kRounding);  // one matrix of scratch
    EXPECT_GE(peak_bytes(at::kCPU) - before, all);
  }
}

TEST(QuantizedRows, AreDequantizedOnceInEachDirection) {
  const auto weight = shared_weights(12, 70).front();
  const testing::KernelCalls calls("reprise", "dequantize_");
  const auto x = torch::randn({5, 70}).requires_grad_();
  const auto y = linear(x, weight, {});
  EXPECT_EQ(calls.get(), 1);
  y.sum().backward();
  EXPECT_EQ(calls.get(), 2);
  linear(torch::randn({5, 70}), weight, {});
  EXPECT_EQ(calls.get(), 3);
}

TEST(QuantizedRows, AtTheEndOfARegionAreNotMadeAgain) {
  const auto weight = shared_weights(12, 70).front();
  const auto region = [&](const at::Tensor& x) { return linear(x.tanh(), weight, {}); };
  const auto plain_x = torch::randn({5, 70}).requires_grad_();
  region(plain_x).square().sum().backward();
  const auto x = plain_x.detach().clone().requires_grad_();
  const testing::KernelCalls calls("reprise", "dequantize_");
  checkpoint(region, x).square().sum().backward();
  EXPECT_EQ(calls.get(), 2);  // forward and backward; the recompute ends after tanh
  EXPECT_TRUE(bitwise_equal(x.grad(), plain_x.grad()));
}

TEST(QuantizedRows, OfSeveralWeightsAreOneMatrix) {
  const auto first = shared_weights(12, 70), second = shared_weights(5, 70);
  for (size_t i = 0; i < first.size(); ++i) {
    ASSERT_TRUE(can_be_joined(*first[i], *second[i]));
    const auto both =
        at::cat({dequantize(*first[i], at::kFloat), dequantize(*second[i], at::kFloat)});
    const ops::Weight weight = quantized_rows({first[i], second[i]});
    EXPECT_EQ(weight.out(), 17);
    EXPECT_EQ(weight.in(), 70);
    EXPECT_TRUE(bitwise_equal(weight.for_product(at::kFloat), both)) << testing::name_of(*first[i]);
  }
  EXPECT_FALSE(can_be_joined(*first.front(), *shared_weights(12, 60).front()));
  EXPECT_FALSE(can_be_joined(*first.front(), *first.back()));
}

TEST(QuantizedRows, RefuseWhatDoesNotFit) {
  const auto weight = shared_weights(12, 70).front();
  const auto refused = [&](const at::Tensor& x, const at::Tensor& bias) {
    EXPECT_TRUE(testing::contains(
        testing::message_of<c10::Error>([&] { linear(x, weight, bias); }),
        "[linear] expected x (..., in), a weight (out, in) and a bias (out) on one device"));
  };
  refused(torch::randn({5, 12}), {});
  refused(torch::randn({5, 70}), torch::randn({70}));
}

TEST(QuantizedRows, AreDifferentiableOnce) {
  const auto weight = shared_weights(12, 70).front();
  const auto x = torch::randn({5, 70}).requires_grad_();
  const auto y = linear(x, weight, {}).square().sum();
  EXPECT_TRUE(testing::contains(testing::message_of<c10::Error>([&] {
                                  torch::autograd::grad(
                                      {y}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true);
                                }),
                                "differentiable once"));
}

}  // namespace
}  // namespace reprise::quant
