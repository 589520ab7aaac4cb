// Products by oneDNN: the numbers of MKL, the same bits every time, and what a plan counts on.
#include <reprise/ops/products.h>

#include "ops/cpu/onednn_matmul.h"
#include "ops/linear/linear.h"
#include "ops/linear/matmul.h"
#include "support/bitwise.h"
#include "support/tensors.h"

#include <reprise/checkpoint.h>
#include <reprise/memory.h>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

namespace reprise {
namespace {

using at::Tensor;

/// Products by MKL for as long as it lives.
class MklOnly {
 public:
  MklOnly() { at::globalContext().setUserEnabledMkldnn(false); }
  ~MklOnly() { at::globalContext().setUserEnabledMkldnn(true); }
  MklOnly(const MklOnly&) = delete;
  MklOnly& operator=(const MklOnly&) = delete;
};

constexpr int64_t kRows = 96, kIn = 128, kOut = 160;  // large enough for oneDNN

class Products : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ops::has_onednn_matmul()) {
      GTEST_SKIP() << "MKL multiplies on this processor";
    }
    torch::manual_seed(0);
  }
};

TEST_F(Products, EqualTheProductInDoublePrecision) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const int64_t rows : {kRows, kRows + 1}) {
        const auto a =
            torch::randn(transpose_a ? at::IntArrayRef{kIn, rows} : at::IntArrayRef{rows, kIn});
        const auto b =
            torch::randn(transpose_b ? at::IntArrayRef{kOut, kIn} : at::IntArrayRef{kIn, kOut});
        const auto left = transpose_a ? a.t() : a, right = transpose_b ? b.t() : b;
        ASSERT_TRUE(ops::serves_onednn_matmul(left, right));
        const auto expected = at::mm(left.to(at::kDouble), right.to(at::kDouble));
        const auto product = ops::matmul(a, b, {.a = transpose_a, .b = transpose_b});
        EXPECT_TRUE(at::allclose(product.to(at::kDouble), expected, 1e-5, 1e-4));
        auto sum = torch::ones({rows, kOut});
        ops::add_matmul(sum, a, b, {.a = transpose_a, .b = transpose_b});
        EXPECT_TRUE(at::allclose(sum.to(at::kDouble), expected + 1, 1e-5, 1e-4));
      }
    }
  }
}

TEST_F(Products, LinearLayersHaveTheirBias) {
  const auto x = torch::randn({4, kRows / 4, kIn}), weight = torch::randn({kOut, kIn});
  const auto bias = torch::randn({kOut});
  const auto expected = at::linear(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble));
  EXPECT_TRUE(at::allclose(ops::linear(x, weight, bias).to(at::kDouble), expected, 1e-5, 1e-4));
}

TEST_F(Products, HaveTheSameBitsEveryTimeAndOnEveryThread) {
  const auto a = torch::randn({kRows, kIn}), b = torch::randn({kIn, kOut});
  const auto first = ops::matmul(a, b);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(testing::bitwise_equal(ops::matmul(a.clone(), b.clone()), first));
  }
  Tensor elsewhere;
  std::thread([&] { elsewhere = ops::matmul(a, b); }).join();
  EXPECT_TRUE(testing::bitwise_equal(elsewhere, first));
}

TEST_F(Products, CheckpointedLayersHaveThePlainOnesBits) {
  const auto weight = torch::randn({kOut, kIn}).set_requires_grad(true);
  const auto x = torch::randn({kRows, kIn}).set_requires_grad(true);
  const auto gradients = [&](const Tensor& y) {
    return torch::autograd::grad({y.square().sum()}, {x, weight});
  };
  const auto layer = [&](const Tensor& h) { return ops::linear(h, weight, {}).tanh(); };
  const auto plain = gradients(layer(x)), checkpointed = gradients(checkpoint(layer, x));
  EXPECT_TRUE(testing::bitwise_equal(plain[0], checkpointed[0]));
  EXPECT_TRUE(testing::bitwise_equal(plain[1], checkpointed[1]));
}

// MKL's results have other bits, so a switch between forward and backward must not go unnoticed.
TEST_F(Products, SwitchingTheLibraryBeforeARecomputeIsAnError) {
  const auto weight = torch::randn({kOut, kIn}).set_requires_grad(true);
  const auto y = checkpoint([&](const Tensor& h) { return ops::linear(h, weight, {}).tanh(); },
                            torch::randn({kRows, kIn}));
  const MklOnly mkl;
  EXPECT_ANY_THROW(y.sum().backward());
}

// Note [What a region reads must not change] holds for a kernel that the dispatcher does not see.
TEST_F(Products, AWeightThatChangedBeforeARecomputeIsAnError) {
  const auto weight = torch::randn({kOut, kIn}).set_requires_grad(true);
  const auto y = checkpoint([&](const Tensor& h) { return ops::linear(h, weight, {}).tanh(); },
                            torch::randn({kRows, kIn}));
  {
    const at::NoGradGuard no_grad;
    weight.add_(1);
  }
  EXPECT_ANY_THROW(y.sum().backward());
}

TEST_F(Products, TheSwitchOfLibTorchChoosesMkl) {
  EXPECT_STREQ(cpu_product_library(), "oneDNN");
  const auto a = torch::randn({kRows, kIn}), b = torch::randn({kIn, kOut});
  const MklOnly mkl;
  EXPECT_STREQ(cpu_product_library(), "MKL");
  EXPECT_TRUE(testing::bitwise_equal(ops::matmul(a, b), at::mm(a, b)));
}

// Plans predict a step's bytes without oneDNN, on meta tensors.
TEST_F(Products, AllocateWhatMklAllocates) {
  const auto growth = [](const auto& compute) {
    const PeakTracker tracker(at::kCPU);
    const Tensor result = compute();
    return tracker.extra();
  };
  const auto expect_same_growth = [&](const auto& compute) {
    const auto by_onednn = growth(compute);
    const MklOnly mkl;
    EXPECT_LE(std::abs(by_onednn - growth(compute)), 8192);  // malloc rounds
  };
  constexpr int64_t kManyRows = 512, kWide = 1536;
  const auto x = torch::randn({4, kManyRows / 4, kWide}), weight = torch::randn({kIn, kWide});
  const auto bias = torch::randn({kIn}), slope = torch::randn({kManyRows, kIn});
  expect_same_growth([&] { return ops::linear(x, weight, bias); });
  expect_same_growth([&] { return ops::linear(x, weight, {}); });
  expect_same_growth([&] { return ops::matmul(slope, weight); });
  expect_same_growth([&] { return ops::matmul(slope, x.view({-1, kWide}), {.a = true}); });
}

TEST(ProductsEverywhere, SmallOnesAndOtherTypesAreLibTorchsOwn) {
  const auto small = torch::randn({8, 8}), doubles = torch::randn({kRows, kRows}).to(at::kDouble);
  EXPECT_FALSE(ops::serves_onednn_matmul(small, small));
  EXPECT_FALSE(ops::serves_onednn_matmul(doubles, doubles));
  const auto large = torch::randn({2 * kIn, 2 * kIn});
  EXPECT_FALSE(ops::serves_onednn_matmul(large.slice(1, 0, kIn), large.slice(0, 0, kIn)));
  EXPECT_TRUE(testing::bitwise_equal(ops::matmul(small, small), at::mm(small, small)));
}

}  // namespace
}  // namespace reprise
