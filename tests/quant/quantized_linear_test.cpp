// A linear layer over a quantised weight: its values and gradients, what it keeps for backward, and
// how often it dequantises.
#include "quant/quantized_linear.h"
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

std::vector<std::shared_ptr<const QuantizedWeight>> shared_weights(int64_t out, int64_t in) {
  std::vector<std::shared_ptr<const QuantizedWeight>> weights;
  for (const auto& weight : testing::random_weights(out, in)) {
    weights.push_back(std::make_shared<const QuantizedWeight>(weight));
  }
  return weights;
}

TEST(QuantizedLinear, IsALinearLayerOverTheDequantizedWeight) {
  for (const auto& weight : shared_weights(12, 70)) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble}) {
      const auto matrix = dequantize(*weight, type);
      const auto bias = torch::randn({12}).to(type).requires_grad_();
      const auto x = torch::randn({3, 5, 70}).to(type).requires_grad_();
      const auto y = quantized_linear(x, weight, bias);
      EXPECT_TRUE(at::allclose(y, at::linear(x, matrix, bias), 1e-2, 1e-2));
      y.square().sum().backward();
      const auto slope = (2 * y).detach();
      EXPECT_TRUE(at::allclose(x.grad(), at::matmul(slope, matrix), 1e-2, 1e-2));
      EXPECT_TRUE(at::allclose(bias.grad(), slope.sum({0, 1}), 1e-2, 1e-2));
    }
  }
}

TEST(QuantizedLinear, HasTheNumericGradient) {
  for (const auto& weight : shared_weights(6, 20)) {
    const auto factors = torch::randn({4, 6}, torch::kDouble);
    const auto fn = [&](const at::Tensor& x) {
      return (quantized_linear(x, weight, {}) * factors).sum();
    };
    const auto x = torch::randn({4, 20}, torch::kDouble).requires_grad_();
    fn(x).backward();
    EXPECT_TRUE(at::allclose(x.grad(), testing::numeric_gradient(fn, x), 1e-6, 1e-8))
        << testing::name_of(*weight);
  }
}

TEST(QuantizedLinear, KeepsNothingForBackward) {
  track_cpu_memory();
  for (const auto& weight : shared_weights(256, 512)) {
    auto x = torch::randn({64, 512}).requires_grad_();
    const int64_t before = live_bytes(at::kCPU);
    reset_peak_bytes(at::kCPU);
    auto y = quantized_linear(x * 2, weight, {});  // x * 2 is an activation that nobody else keeps
    constexpr int64_t kRounding = 4096;            // of malloc
    const int64_t kept = live_bytes(at::kCPU) - before;
    EXPECT_LT(kept, static_cast<int64_t>(y.nbytes()) + kRounding) << testing::name_of(*weight);
    const int64_t matrix = int64_t{256} * 512 * 4;
    const auto all = static_cast<int64_t>(x.nbytes() + y.nbytes()) + matrix;
    EXPECT_LE(peak_bytes(at::kCPU) - before, all + kRounding);  // one matrix of scratch
    EXPECT_GE(peak_bytes(at::kCPU) - before, all);
  }
}

TEST(QuantizedLinear, DequantizesOnceInEachDirection) {
  const auto weight = shared_weights(12, 70).front();
  const testing::KernelCalls calls("reprise", "dequantize_");
  const auto x = torch::randn({5, 70}).requires_grad_();
  const auto y = quantized_linear(x, weight, {});
  EXPECT_EQ(calls.get(), 1);
  y.sum().backward();
  EXPECT_EQ(calls.get(), 2);
  quantized_linear(torch::randn({5, 70}), weight, {});
  EXPECT_EQ(calls.get(), 3);
}

TEST(QuantizedLinear, AtTheEndOfARegionIsNotRunAgain) {
  const auto weight = shared_weights(12, 70).front();
  const auto region = [&](const at::Tensor& x) { return quantized_linear(x.tanh(), weight, {}); };
  const auto plain_x = torch::randn({5, 70}).requires_grad_();
  region(plain_x).square().sum().backward();
  const auto x = plain_x.detach().clone().requires_grad_();
  const testing::KernelCalls calls("reprise", "dequantize_");
  checkpoint(region, x).square().sum().backward();
  EXPECT_EQ(calls.get(), 2);  // forward and backward; the recompute ends after tanh
  EXPECT_TRUE(bitwise_equal(x.grad(), plain_x.grad()));
}

TEST(QuantizedLinear, IsNotTouchedByAutocast) {
  const auto weight = shared_weights(12, 70).front();
  const auto x = torch::randn({5, 70});
  const auto expected = quantized_linear(x, weight, {});
  const AutocastScope autocast(c10::kCPU, at::kBFloat16, /*enabled=*/true);
  EXPECT_TRUE(bitwise_equal(quantized_linear(x, weight, {}), expected));
}

TEST(QuantizedLinear, RefusesWhatDoesNotFit) {
  const auto weight = shared_weights(12, 70).front();
  const auto refused = [&](const at::Tensor& x, const at::Tensor& bias, const std::string& part) {
    EXPECT_TRUE(testing::contains(
        testing::message_of<c10::Error>([&] { quantized_linear(x, weight, bias); }), part));
  };
  refused(torch::randn({5, 12}), {}, "[quantized_linear] expected x (..., 70)");
  refused(torch::ones({5, 70}, torch::kLong), {}, "of floating point");
  refused(torch::randn({5, 70}), torch::randn({70}), "expected a bias (12)");
  refused(torch::randn({5, 70}), torch::randn({12}).to(at::kBFloat16), "of the type of x, Float");
}

TEST(QuantizedLinear, IsDifferentiableOnce) {
  const auto weight = shared_weights(12, 70).front();
  const auto x = torch::randn({5, 70}).requires_grad_();
  const auto y = quantized_linear(x, weight, {}).square().sum();
  EXPECT_TRUE(testing::contains(testing::message_of<c10::Error>([&] {
                                  torch::autograd::grad(
                                      {y}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true);
                                }),
                                "differentiable once"));
}

}  // namespace
}  // namespace reprise::quant
