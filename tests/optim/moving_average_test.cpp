// Moving averages: their values, and that swapping them in is undone.
#include "support/bitwise.h"
#include "support/temporary_folder.h"
#include "support/tensor_parts.h"
#include "support/tensors.h"
#include "support/thread_world.h"

#include <reprise/io/file.h>
#include <reprise/optim/optimizer.h>
#include "io/safetensors/distributed_write.h"

#include <gtest/gtest.h>

#include <string>

namespace reprise::testing {
namespace {

at::Tensor average_of(const MovingAverage& average, size_t i = 0) {
  return average.state().at(i).second;
}

TEST(MovingAverage, BeginsWithTheParametersAndFollowsThem) {
  const at::Tensor weight = torch::ones({2, 3}, at::requires_grad());
  MovingAverage average({{"w", weight}}, 0.75);
  EXPECT_TRUE(average_of(average).equal(torch::ones({2, 3})));
  {
    const c10::NoGradGuard no_grad;
    weight.fill_(5);
  }
  average.update();
  EXPECT_TRUE(average_of(average).equal(torch::full({2, 3}, 2.F)));
  average.update();
  EXPECT_TRUE(average_of(average).equal(torch::full({2, 3}, 2.75F)));
  EXPECT_FALSE(average_of(average).requires_grad());
}

TEST(MovingAverage, AveragesSixteenBitParametersInFloat32) {
  // Longer than the slices in which it is cast, by a few.
  const at::Tensor weight = torch::zeros({(int64_t{1} << 22) + 3}, at::kBFloat16);
  MovingAverage average({{"w", weight}}, 1 - 1.0 / 1024);
  weight.fill_(1);
  average.update();
  average.update();
  const double twice = 2.0 / 1024 - 1.0 / (1024 * 1024);  // no bfloat16
  EXPECT_TRUE(average_of(average).equal(torch::full(weight.sizes(), twice)));
}

/// Steps of a tenth of what bfloat16 can tell apart at 1: the parameter does not move at all.
TEST(MovingAverage, FollowsTheFloat32CopiesOfAnOptimizer) {
  const at::Tensor weight = torch::ones(3, at::TensorOptions(at::kBFloat16).requires_grad(true));
  const auto optimizer = Optimizer::make({{"w", weight}}, {.kind = OptimizerKind::Sgd});
  MovingAverage average(*optimizer, 0.5);
  constexpr double kChange = 1.0 / 2048;
  weight.mutable_grad() = torch::ones(3, at::kBFloat16);
  optimizer->step(kChange);
  average.update();
  EXPECT_TRUE(weight.equal(torch::ones(3, at::kBFloat16)));
  EXPECT_TRUE(average_of(average).equal(torch::full({3}, 1 - kChange / 2)));
  EXPECT_EQ(average.state().at(0).first, "w");
}

/// Of what has a float32 copy nothing is kept: it is rounded from the copy again.
TEST(MovingAverage, SwapsRoundingsOfFloat32CopiesInAndBack) {
  const at::Tensor weight = torch::randn(64).to(at::kBFloat16).requires_grad_();
  const auto optimizer = Optimizer::make({{"w", weight}}, {});
  weight.mutable_grad() = torch::randn(64).to(at::kBFloat16);
  optimizer->step(1e-3);
  const at::Tensor before = weight.detach().clone();
  MovingAverage average(*optimizer, 0.5);
  average_of(average).fill_(0.1);
  {
    const auto swap = average.swap();
    EXPECT_TRUE(weight.detach().equal(torch::full({64}, 0.1F).to(at::kBFloat16)));
  }
  EXPECT_TRUE(bitwise_equal(weight, before));
  EXPECT_TRUE(average_of(average).equal(torch::full({64}, 0.1F)));
}

TEST(MovingAverage, ChangesPlacesWithFloat32ParametersInTheirMemory) {
  const at::Tensor weight = torch::randn({2, 3}, at::requires_grad());
  const void* own = weight.data_ptr();
  MovingAverage average({{"w", weight}}, 0.5);
  const void* averaged = average_of(average).data_ptr();
  {
    const auto swap = average.swap();
    EXPECT_EQ(weight.data_ptr(), own);  // where others may look at it
    EXPECT_TRUE(weight.requires_grad() && weight.is_leaf());
    EXPECT_EQ(weight.sizes(), (at::IntArrayRef{2, 3}));
  }
  EXPECT_EQ(weight.data_ptr(), own);
  EXPECT_EQ(average_of(average).data_ptr(), averaged);
}

TEST(MovingAverage, SwapsInAndBackBitwise) {
  const at::Tensor single = torch::randn(5, at::requires_grad());
  const at::Tensor half = torch::randn(5).to(at::kHalf);
  const at::Tensor single_before = single.detach().clone();
  const at::Tensor half_before = half.clone();
  MovingAverage average({{"single", single}, {"half", half}}, 0.5);
  average_of(average, 0).fill_(0.25);
  average_of(average, 1).fill_(0.1);
  {
    const auto swap = average.swap();
    EXPECT_TRUE(single.detach().equal(torch::full({5}, 0.25F)));
    EXPECT_TRUE(half.equal(torch::full({5}, 0.1F).to(at::kHalf)));
    EXPECT_TRUE(single.requires_grad() && single.is_leaf());
  }
  EXPECT_TRUE(bitwise_equal(single, single_before));
  EXPECT_TRUE(bitwise_equal(half, half_before));
  EXPECT_TRUE(average_of(average, 1).equal(torch::full({5}, 0.1F)));
}

TEST(MovingAverage, RefusesToAverageItself) {
  const at::Tensor weight = torch::ones(2);
  MovingAverage average({{"w", weight}}, 0.5);
  auto swap = average.swap();
  expect_error([&] { average.update(); }, "end the swap before the next update");
  expect_error([&] { average.swap(); }, "end the swap before the next update or swap");
  expect_error([&] { average.state(); }, "before they are saved");
  swap.reset();
  average.update();
  average.swap();
}

TEST(MovingAverage, ComesBackFromAFileUnderTheNamesOfTheParameters) {
  const TemporaryFolder folder;
  const at::Tensor weight = torch::randn({3, 2}).to(at::kBFloat16);
  MovingAverage saved({{"model.w", weight}}, 0.9);
  weight.fill_(2);
  saved.update();
  write_safetensors(folder / "ema", saved.state());
  MovingAverage loaded({{"model.w", weight}}, 0.9);
  const TensorFile file(folder / "ema");
  ASSERT_NE(file.find("model.w"), nullptr);
  loaded.load(file);
  EXPECT_TRUE(bitwise_equal(average_of(loaded), average_of(saved)));
  MovingAverage other({{"model.v", weight}}, 0.9);
  expect_error([&] { other.load(file); }, "expected a tensor \"model.v\", found none");
}

TEST(MovingAverage, RefusesADecayThatIsNone) {
  expect_error([] { MovingAverage({}, 1); }, "expected at least 0 and below 1, got 1");
  expect_error([] { MovingAverage({}, -0.5); }, "expected at least 0 and below 1, got -0.5");
}

TEST(MovingAverage, OfPartsIsPartsOfTheAverage) {
  const TemporaryFolder folder;
  const Optimizer::Parameters all = {{"w", torch::ones({2, 3})}, {"v", torch::ones({1})}};
  const auto trained = Optimizer::make(all, {.kind = OptimizerKind::Sgd});
  MovingAverage whole(*trained, 0.5);
  run_in_world(3, [&](const World& world) {
    auto parts = parts_here(all, world);
    const auto optimizer = Optimizer::make(parts, {.kind = OptimizerKind::Sgd});
    MovingAverage average(*optimizer, 0.5);
    for (const TensorPart& part : parts) {
      part.values.fill_(3);
    }
    average.update();
    io::write_safetensors_distributed(world, folder / "parts", average.state_parts());
    {
      const auto swap = average.swap();
      for (const TensorPart& part : parts) {  // in the memory that others look at
        EXPECT_TRUE(part.values.eq(2).all().item<bool>());
      }
    }
    MovingAverage loaded(*optimizer, 0.5);
    loaded.load(TensorFile(folder / "parts"), world);
    for (const TensorPart& part : loaded.state_parts()) {
      EXPECT_TRUE(part.values.eq(2).all().item<bool>());
    }
  });
  EXPECT_TRUE(all[0].second.eq(3).all().item<bool>());
  whole.update();
  write_safetensors(folder / "whole", whole.state());
  EXPECT_TRUE(read_file(folder / "parts") == read_file(folder / "whole"));
}

}  // namespace
}  // namespace reprise::testing
