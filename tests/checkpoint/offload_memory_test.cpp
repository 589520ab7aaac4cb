// Bytes under offloading: the device holds what Note [Order of offload and fetch] predicts, the
// host stays within its budget. The device is the CPU, whose tensors are counted; pages are not.
#include "checkpoint/counted_tensors.h"
#include "support/bitwise.h"
#include "support/clone_backend.h"
#include "support/devices.h"
#include "support/tensors.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

constexpr int kRegions = 6;

/// Four results, of which the last is the region's.
at::Tensor four(at::Tensor x) {
  for (int i = 0; i < 4; ++i) {
    x = torch::tanh(x);
  }
  return x;
}

/// `decision` for the first three results.
std::shared_ptr<const Policy> inner_results(Decision decision) {
  return policy::from([decision](const OpContext& op) {
    return op.name == "aten::tanh" && op.call_index < 3 ? decision : Decision::Recompute;
  });
}

/// The first region's input may be a leaf, which cannot be offloaded.
at::Tensor run_regions(const CheckpointOptions& options, at::Tensor x, int regions = kRegions) {
  auto mine = options;
  for (int i = 0; i < regions; ++i) {
    mine.offload_inputs = options.offload_inputs && !x.is_leaf();
    x = checkpoint(mine, four, std::move(x));
  }
  return x;
}

class OffloadMemory : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    record_checkpoint_stats(true);
    reset_checkpoint_stats();
  }
  void TearDown() override { record_checkpoint_stats(false); }

  /// Tensors alive after forward, on top of the input.
  static int64_t held(const CheckpointOptions& options) {
    const auto x = counted_input();
    const auto before = live_bytes(c10::kCPU);
    const auto y = run_regions(options, x);
    return in_tensors(live_bytes(c10::kCPU) - before);
  }

  const CheckpointOptions full_{};
  const CheckpointOptions kept_{.policy = inner_results(Decision::Keep)};
  const CheckpointOptions moved_{.policy = inner_results(Decision::Offload)};
  const CheckpointOptions inputs_{.offload_inputs = true};
  const CheckpointOptions all_{.policy = inner_results(Decision::Offload), .offload_inputs = true};
  const BackendScope scope_{std::make_shared<CloneBackend>(kSmallestMovedBytes, GetParam())};
};

TEST_P(OffloadMemory, AfterForwardOnlyTheLastParcelIsOnTheDevice) {
  EXPECT_EQ(held(full_), kRegions);  // each region's result, which is the next one's input
  EXPECT_EQ(held(kept_), kRegions + 3 * kRegions);
  EXPECT_EQ(held(moved_), kRegions + 3);
  EXPECT_EQ(held(inputs_), 2);  // the last result, and the last input on its way
  EXPECT_EQ(held(all_), 2 + 3);
}

TEST_P(OffloadMemory, ForwardHasTwoParcelsOnTheDeviceAtMost) {
  const auto peak = [](const CheckpointOptions& options) {
    const auto x = counted_input();
    const PeakTracker tracker(c10::kCPU);
    const auto y = run_regions(options, x);
    return in_tensors(tracker.extra());
  };
  EXPECT_EQ(peak(kept_), kRegions + 3 * kRegions);
  EXPECT_EQ(peak(moved_), kRegions + 2 * 3);
  // Two inputs on their way, and the result that is being made.
  EXPECT_EQ(peak(all_), 2 + 1 + 2 * 3);
}

TEST_P(OffloadMemory, BackwardHasTheRegionsOwnParcelAndThePrefetchedOnes) {
  const auto peak = [](const CheckpointOptions& options, size_t prefetch) {
    set_offload_settings({.prefetch = prefetch});
    const auto x = counted_input();
    const auto y = run_regions(options, x);
    const auto upstream = torch::ones_like(y);
    const PeakTracker tracker(c10::kCPU);
    torch::autograd::grad({y}, {x}, {upstream});
    return in_tensors(tracker.extra());
  };
  const auto alone = peak(all_, 0);
  // One input and three results more for each region ahead.
  EXPECT_EQ(peak(all_, 1), alone + 4);
  EXPECT_EQ(peak(all_, 2), alone + 8);
}

TEST_P(OffloadMemory, EverythingIsFreedWhenTheGraphIs) {
  const auto x = counted_input();
  const auto before = live_bytes(c10::kCPU);
  {
    const auto y = run_regions(all_, x);
    EXPECT_EQ(offload_use().host_bytes_in_use, kTensorBytes * (4 * kRegions - 1));  // x is a leaf
    torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true);
    // The host has everything for the next backward; of the device's bytes the result is left.
    EXPECT_EQ(in_tensors(live_bytes(c10::kCPU) - before), 1);
    EXPECT_EQ(offload_use().host_bytes_in_use, kTensorBytes * (4 * kRegions - 1));
    torch::autograd::grad({y.sum()}, {x});
    EXPECT_EQ(offload_use().host_bytes_in_use, 0);
  }
  EXPECT_EQ(in_tensors(live_bytes(c10::kCPU) - before), 0);
}

TEST_P(OffloadMemory, ABackwardThatEndsEarlyLetsGoOfWhatWasPrefetched) {
  const auto x = counted_input();
  const auto middle = run_regions(all_, x, 2);
  const auto y = run_regions(all_, middle, 2);
  const auto before = live_bytes(c10::kCPU);
  torch::autograd::grad({y.sum()}, {middle}, {}, /*retain_graph=*/true);
  // The last group was on the device before: three results and the input.
  EXPECT_EQ(in_tensors(live_bytes(c10::kCPU) - before), -4);
}

TEST_P(OffloadMemory, StatisticsTellWhatMoved) {
  {
    const auto x = counted_input();
    const auto y = run_regions(all_, x);
    torch::autograd::grad({y.sum()}, {x});
  }
  const auto bytes = [](int64_t tensors) { return static_cast<size_t>(tensors * kTensorBytes); };
  const auto stats = checkpoint_stats().total;
  EXPECT_EQ(stats.bytes_offloaded, bytes(4 * kRegions - 1));
  EXPECT_EQ(stats.bytes_fetched, bytes(4 * (kRegions - 1) - 1));  // all but the last group
  EXPECT_EQ(stats.bytes_not_moved, 0U);
  EXPECT_EQ(stats.bytes_kept, 0U);
}

TEST_P(OffloadMemory, WhatTheProgramHoldsIsCountedAndNotFetched) {
  const auto x = counted_input();
  std::vector<at::Tensor> states{x.exp()};
  for (int i = 0; i < kRegions; ++i) {
    states.push_back(checkpoint(inputs_, four, states.back()));
  }
  const auto gradient = torch::autograd::grad({states.back().sum()}, {x})[0];
  const auto stats = checkpoint_stats().total;
  EXPECT_EQ(stats.bytes_offloaded, static_cast<size_t>(kRegions * kTensorBytes));
  EXPECT_EQ(stats.bytes_not_moved, static_cast<size_t>((kRegions - 1) * kTensorBytes));
  EXPECT_EQ(stats.bytes_fetched, 0U);
  auto y = x.exp();
  for (int i = 0; i < kRegions; ++i) {
    y = four(y);
  }
  EXPECT_TRUE(bitwise_equal(gradient, torch::autograd::grad({y.sum()}, {x})[0]));
}

TEST_P(OffloadMemory, ResultsOfTheRegionAndSmallOnesStay) {
  const auto x = counted_input();
  const auto everything = policy::from([](const OpContext&) { return Decision::Offload; });
  const auto y = checkpoint(
      {.policy = everything}, [](at::Tensor h) { return h.sin().exp(); }, x);
  auto stats = checkpoint_stats().total;
  EXPECT_EQ(stats.bytes_offloaded, static_cast<size_t>(kTensorBytes));
  EXPECT_EQ(stats.bytes_not_moved, static_cast<size_t>(kTensorBytes));
  EXPECT_EQ(stats.bytes_kept, static_cast<size_t>(kTensorBytes));
  reset_checkpoint_stats();
  const auto small = torch::ones({100}).requires_grad_();
  const auto z = checkpoint(
      {.policy = everything}, [](at::Tensor h) { return h.sin().exp().cos(); }, small);
  stats = checkpoint_stats().total;
  EXPECT_EQ(stats.bytes_offloaded, 0U);
  EXPECT_EQ(stats.bytes_not_moved, 3 * small.nbytes());
  torch::autograd::grad({y.sum() + z.sum()}, {x, small});
}

TEST_P(OffloadMemory, ABudgetThatIsTooSmallIsAnErrorBeforeAnythingIsAllocated) {
  set_offload_settings({.host_budget = 4 * kTensorBytes});
  const auto x = counted_input();
  const auto message = message_of<c10::Error>([&] { run_regions(moved_, x); });
  EXPECT_TRUE(contains(message, "[offload] 786432 bytes of cpu need 786432 more bytes"));
  EXPECT_TRUE(contains(message, "its budget is 1048576 bytes, of which 786432 hold tensors"));
  EXPECT_EQ(offload_use().host_bytes_in_use, 0);
  EXPECT_EQ(offload_use().host_bytes, 3 * kTensorBytes);
  const auto y = run_regions(moved_, x, 1);
  EXPECT_TRUE(contains(message_of<c10::Error>([] { set_offload_settings({.host_budget = 1}); }),
                       "between training steps"));
  EXPECT_THROW(set_offload_settings({.host_budget = -1}), c10::Error);
  set_offload_settings({});
  torch::autograd::grad({run_regions(moved_, y).sum()}, {x});
}

/// With pinned pages and a stream of copies.
TEST(OffloadMemoryOnTheGpu, IsWhatWasPredictedAndGradientsAreTheSame) {
  REPRISE_REQUIRE_CUDA();
  constexpr int64_t kLarge = 2048;
  constexpr int64_t kBytes = kLarge * kLarge * static_cast<int64_t>(sizeof(float));
  const auto x = torch::linspace(0, 1, kLarge * kLarge, at::TensorOptions(at::kCUDA))
                     .view({kLarge, kLarge})
                     .requires_grad_();
  const auto step = [&](const CheckpointOptions& options, int64_t expected) {
    const auto before = live_bytes(c10::kCUDA);
    const auto y = run_regions(options, x);
    const auto held = static_cast<double>(live_bytes(c10::kCUDA) - before);
    EXPECT_EQ(std::lround(held / static_cast<double>(kBytes)), expected);
    return torch::autograd::grad({y.sum()}, {x})[0];
  };
  const auto kept = step({.policy = inner_results(Decision::Keep)}, kRegions + 3 * kRegions);
  const CheckpointOptions all{.policy = inner_results(Decision::Offload), .offload_inputs = true};
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(bitwise_equal(kept, step(all, 2 + 3)));
    EXPECT_EQ(offload_use().host_bytes_in_use, 0);
    EXPECT_EQ(offload_use().host_bytes, kBytes * (4 * kRegions - 1));  // pages are reused
  }
  trim_offload_memory();
  EXPECT_EQ(offload_use().host_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(, OffloadMemory, ::testing::Bool(), [](const auto& test) {
  return test.param ? "LateCopies" : "PromptCopies";
});

}  // namespace
}  // namespace reprise::testing
