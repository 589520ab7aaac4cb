// Optimizers beyond the arithmetic: what they leave alone, 16-bit parameters, memory, misuse.
#include "support/bitwise.h"
#include "support/temporary_folder.h"
#include "support/tensors.h"

#include <reprise/optim/optimizer.h>

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

const std::vector<OptimizerKind> kKinds = {OptimizerKind::AdamW,
                                           OptimizerKind::AdamW8bit,
                                           OptimizerKind::AdamWBf16,
                                           OptimizerKind::Lion,
                                           OptimizerKind::Adafactor,
                                           OptimizerKind::Muon,
                                           OptimizerKind::RmsProp,
                                           OptimizerKind::Sgd};

at::Tensor parameter(std::vector<int64_t> shape, at::ScalarType dtype = at::kFloat) {
  return torch::randn(shape).to(dtype).set_requires_grad(true);
}

void set_grad(const at::Tensor& tensor, double value) {
  tensor.mutable_grad() = torch::full_like(tensor, value).set_requires_grad(false);
}

TEST(Optimizer, LeavesAParameterWithoutAGradientAlone) {
  for (const auto kind : kKinds) {
    const at::Tensor with = parameter({3});
    const at::Tensor without = parameter({3}, at::kBFloat16);
    const at::Tensor before = without.detach().clone();
    const auto optimizer = Optimizer::make({{"with", with}, {"without", without}},
                                           {.kind = kind, .weight_decay = 0.5});
    set_grad(with, 1);
    const at::Tensor moved = with.detach().clone();
    optimizer->step(0.1);
    EXPECT_FALSE(with.detach().equal(moved));
    EXPECT_TRUE(bitwise_equal(without, before));
    for (const auto& [name, value] : optimizer->state()) {
      if (name.starts_with("without/") && name != "without/master") {
        EXPECT_EQ(value.abs().sum().item<float>(), 0.F) << name;
      }
    }
  }
}

TEST(Optimizer, StepsWithoutAnyGradientOrParameter) {
  const at::Tensor weight = parameter({2});
  const at::Tensor before = weight.detach().clone();
  Optimizer::make({{"w", weight}}, {.weight_decay = 0.5})->step(0.1);
  EXPECT_TRUE(bitwise_equal(weight, before));
  Optimizer::make(Optimizer::Parameters{}, {})->step(0.1);
}

TEST(Optimizer, DoesNotDecayBiasesAndNorms) {
  const at::Tensor weight = torch::ones({2, 2}, at::requires_grad());
  const at::Tensor bias = torch::ones({2}, at::requires_grad());
  const auto optimizer = Optimizer::make({{"a.bias", bias}, {"a.weight", weight}},
                                         {.kind = OptimizerKind::Sgd, .weight_decay = 0.5});
  set_grad(weight, 0);
  set_grad(bias, 0);
  optimizer->step(0.5);
  EXPECT_TRUE(weight.detach().equal(torch::full({2, 2}, 0.75)));
  EXPECT_TRUE(bias.detach().equal(torch::ones(2)));
}

TEST(Optimizer, KeepsUpdatesTooSmallForSixteenBits) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    const at::Tensor weight = torch::ones({4}, dtype).set_requires_grad(true);
    const auto optimizer = Optimizer::make({{"w", weight}}, {.kind = OptimizerKind::Sgd});
    // 2^-14 is lost when it is added to 1 in either type; 256 of them are 2^-6.
    for (int i = 0; i < 256; ++i) {
      set_grad(weight, -1);
      optimizer->step(1.0 / 16384);
    }
    EXPECT_TRUE(weight.detach().equal(torch::full({4}, 1 + 1.0 / 64, dtype))) << dtype;
  }
}

TEST(Optimizer, RoundsTheCopyIntoTheParameter) {
  const at::Tensor weight = parameter({5, 3}, at::kBFloat16);
  const auto optimizer = Optimizer::make({{"w", weight}}, {});
  set_grad(weight, 0.3);
  optimizer->step(0.01);
  const auto [name, master] = optimizer->state().front();
  ASSERT_EQ(name, "w/master");
  EXPECT_EQ(master.scalar_type(), at::kFloat);
  EXPECT_TRUE(bitwise_equal(weight, master.to(at::kBFloat16)));
}

TEST(Optimizer, TakesFloat32GradientsOfSixteenBitParameters) {
  const at::Tensor weight = torch::ones({3}, at::kBFloat16);
  const auto optimizer = Optimizer::make({{"w", weight}}, {.kind = OptimizerKind::Sgd});
  // As a parameter has when its gradients are accumulated in float32; 1 + 2^-12 is no bfloat16.
  weight.set_requires_grad(true);
  weight.set_grad_dtype(at::kFloat);
  weight.mutable_grad() = torch::full({3}, 1 + 1.0 / 4096);
  optimizer->step(0.5);
  EXPECT_TRUE(optimizer->state().front().second.equal(torch::full({3}, 0.5 - 1.0 / 8192)));
}

// Longer than a piece, with small ones around it that share pieces with its ends.
TEST(Optimizer, CutsALargeParameterWithoutChangingTheResult) {
  constexpr int64_t kLarge = (int64_t{1} << 24) + 1003;
  const at::Tensor first = parameter({7}, at::kBFloat16);
  const at::Tensor large = parameter({kLarge}, at::kBFloat16);
  const at::Tensor last = parameter({5}, at::kBFloat16);
  at::Tensor expected = large.detach().to(at::kFloat);
  const auto optimizer = Optimizer::make({{"a", first}, {"b", large}, {"c", last}},
                                         {.kind = OptimizerKind::Sgd, .weight_decay = 0.5});
  set_grad(first, 1);
  set_grad(last, 1);
  large.mutable_grad() = torch::randn({kLarge}).to(at::kBFloat16);
  expected -= 0.25 * (large.grad().to(at::kFloat) + 0.5 * expected);
  const at::Tensor small_before = last.detach().to(at::kFloat);
  optimizer->step(0.25);
  EXPECT_TRUE(at::allclose(optimizer->state()[2].second, expected, /*rtol=*/1e-6, /*atol=*/1e-6));
  EXPECT_TRUE(bitwise_equal(large, optimizer->state()[2].second.to(at::kBFloat16)));
  EXPECT_TRUE(at::allclose(last.detach().to(at::kFloat), small_before * 0.875 - 0.25, 0.01, 0.01));
}

TEST(Optimizer, TakesGradientsThatAreNotContiguous) {
  const at::Tensor weight = torch::zeros({2, 3}, at::requires_grad());
  const auto optimizer = Optimizer::make({{"w", weight}}, {.kind = OptimizerKind::Sgd});
  const at::Tensor grad = torch::arange(6, at::kFloat).view({3, 2}).t();
  weight.mutable_grad() = grad;
  optimizer->step(1);
  EXPECT_TRUE(weight.detach().equal(-grad));
}

TEST(Optimizer, UpdatesWhatHasNoElements) {
  const at::Tensor weight = torch::zeros({0, 3}, at::requires_grad());
  const auto optimizer = Optimizer::make({{"w", weight}}, {});
  set_grad(weight, 1);
  optimizer->step(1);
  EXPECT_EQ(optimizer->state().back().second.item<float>(), 1.F);
}

TEST(Optimizer, CountsTheBytesOfStateAndCopies) {
  const Optimizer::Parameters parameters = {{"single", parameter({10})},
                                            {"half", parameter({10}, at::kHalf)},
                                            {"double", parameter({10}, at::kDouble)}};
  const auto bytes = [&](const OptimizerOptions& options) {
    return Optimizer::make(parameters, options)->bytes();
  };
  constexpr int64_t kMasters = 40;
  constexpr int64_t kSteps = 3 * 4;
  constexpr int64_t kOneForEach = 40 + 40 + 80;
  EXPECT_EQ(bytes({}), kMasters + kSteps + 2 * kOneForEach);
  EXPECT_EQ(bytes({.kind = OptimizerKind::RmsProp}), kMasters + kSteps + kOneForEach);
  EXPECT_EQ(bytes({.kind = OptimizerKind::RmsProp, .momentum = 0.9}),
            kMasters + kSteps + 2 * kOneForEach);
  EXPECT_EQ(bytes({.kind = OptimizerKind::Sgd}), kMasters + kSteps);
  EXPECT_EQ(bytes({.kind = OptimizerKind::Sgd, .momentum = 0.9}), kMasters + kSteps + kOneForEach);
  EXPECT_EQ(bytes({.kind = OptimizerKind::Lion}), kMasters + kSteps + kOneForEach);
}

TEST(Optimizer, CountsTheBytesOfStateWithoutCopies) {
  const Optimizer::Parameters parameters = {{"matrix", parameter({64, 128}, at::kBFloat16)},
                                            {"vector", parameter({10}, at::kBFloat16)}};
  const auto bytes = [&](OptimizerKind kind) {
    return Optimizer::make(parameters, {.kind = kind})->bytes();
  };
  constexpr int64_t kMatrix = 64 * 128, kSteps = 2 * 4;
  EXPECT_EQ(bytes(OptimizerKind::AdamW8bit), 2 * (kMatrix + kMatrix / 256 * 4) + 80 + kSteps);
  EXPECT_EQ(bytes(OptimizerKind::AdamWBf16), 4 * (kMatrix + 10) + kSteps);
  EXPECT_EQ(bytes(OptimizerKind::Adafactor), 4 * (64 + 128) + 40 + kSteps);
  EXPECT_EQ(bytes(OptimizerKind::Muon), 8 * kMatrix + 12 * 10 + kSteps);
}

// A plan makes an optimizer without memory to learn its size.
TEST(Optimizer, OfEveryKindIsAsLargeOnTheMetaDevice) {
  for (const auto kind : kKinds) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const auto bytes = [&](at::Device device) {
        const auto options = at::device(device).dtype(dtype);
        return Optimizer::make(
                   {{"w", torch::empty({65, 70}, options)}, {"v", torch::empty({3}, options)}},
                   {.kind = kind})
            ->bytes();
      };
      EXPECT_EQ(bytes(at::kMeta), bytes(at::kCPU)) << name_of(kind) << " " << dtype;
    }
  }
}

TEST(Optimizer, DropsGradientsInZeroGrad) {
  const at::Tensor weight = parameter({2});
  const auto optimizer = Optimizer::make({{"w", weight}}, {});
  set_grad(weight, 1);
  optimizer->zero_grad();
  EXPECT_FALSE(weight.grad().defined());
}

TEST(Optimizer, RefusesParametersThatItCannotUpdate) {
  const auto make = [](const Optimizer::Parameters& parameters) {
    return [parameters] { Optimizer::make(parameters, {}); };
  };
  const at::Tensor weight = parameter({2, 3});
  expect_error(make({{"w", weight}, {"w", parameter({1})}}), "two parameters are called \"w\"");
  expect_error(make({{"w", weight}, {"v", weight}}),
               "parameter \"v\" is also listed under another name");
  expect_error(make({{"w", weight.detach().t()}}), "expected a dense, contiguous tensor");
  expect_error(make({{"w", at::Tensor()}}), "expected a dense, contiguous tensor");
  expect_error(make({{"w", torch::ones(2, at::kInt)}}), "got Int");
}

TEST(Optimizer, RefusesOptionsOutOfRange) {
  const auto make = [](const OptimizerOptions& options) {
    return [options] { Optimizer::make(Optimizer::Parameters{}, options); };
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_error(make({.beta1 = 1}), "beta1: expected at least 0 and below 1, got 1");
  expect_error(make({.beta2 = -0.1}), "beta2: expected");
  expect_error(make({.epsilon = nan}), "epsilon: expected at least 0");
  expect_error(make({.weight_decay = -1}), "weight_decay: expected at least 0, got -1");
  expect_error(make({.momentum = 0.9}), "AdamW's and Lion's is beta1");
  expect_error(make({.kind = OptimizerKind::Lion, .beta1 = 1}), "beta1: expected");
  expect_error(make({.kind = OptimizerKind::Muon, .momentum = 1}), "momentum: expected");
  expect_error(make({.scale_parameter = true}), "are for Adafactor, got them with adamw");
  expect_error(make({.kind = OptimizerKind::Adafactor, .warmup_init = true}),
               "warmup_init: expected relative_step with it");
  expect_error(make({.kind = OptimizerKind::RmsProp, .alpha = 1.5}), "alpha: expected");
  const auto optimizer = Optimizer::make(Optimizer::Parameters{}, {});
  expect_error([&] { optimizer->step(nan); }, "learning rate: expected at least 0, got nan");
  expect_error([&] { optimizer->step(-1); }, "learning rate: expected at least 0, got -1");
}

TEST(Optimizer, RefusesAGradientThatIsNotDense) {
  const at::Tensor weight = parameter({2});
  const auto optimizer = Optimizer::make({{"w", weight}}, {});
  weight.mutable_grad() = torch::ones(2).to_sparse();
  expect_error([&] { optimizer->step(0.1); }, "gradient of \"w\": expected a dense tensor");
}

}  // namespace
}  // namespace reprise::testing
