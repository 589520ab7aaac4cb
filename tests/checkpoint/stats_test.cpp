// Statistics: what each counter counts, in all and per region name.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace reprise::testing {
namespace {

/// What checkpoint_stats says before anybody switched counting on.
const std::string error_before_counting = [] {
  try {
    checkpoint_stats();
  } catch (const c10::Error& error) {
    return std::string(error.what_without_backtrace());
  }
  return std::string();
}();

constexpr int64_t kNumel = 1024;
constexpr size_t kBytes = kNumel * sizeof(float);

at::Tensor small_input() {
  return torch::linspace(0.1, 1, kNumel).reshape({32, 32}).requires_grad_();
}

class StatsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    record_checkpoint_stats(true);
    reset_checkpoint_stats();
  }
  void TearDown() override { record_checkpoint_stats(false); }
};

TEST(Stats, AreAnErrorBeforeAnybodySwitchedThemOn) {
  EXPECT_TRUE(contains(error_before_counting, "call reprise::record_checkpoint_stats(true)"));
}

TEST_F(StatsTest, StartAtZeroAndGoBackToZero) {
  EXPECT_EQ(checkpoint_stats().total.entered, 0U);
  EXPECT_TRUE(checkpoint_stats().regions.empty());
  checkpoint(deep(1), small_input());
  EXPECT_EQ(checkpoint_stats().total.entered, 1U);
  reset_checkpoint_stats();
  EXPECT_EQ(checkpoint_stats().total.entered, 0U);
  EXPECT_TRUE(checkpoint_stats().regions.empty());
}

TEST_F(StatsTest, SwitchedOffCountNothingMoreButCanBeRead) {
  checkpoint(deep(1), small_input());
  record_checkpoint_stats(false);
  checkpoint(deep(1), small_input()).sum().backward();
  EXPECT_EQ(checkpoint_stats().total.entered, 1U);
  EXPECT_EQ(checkpoint_stats().total.recomputed, 0U);
}

TEST_F(StatsTest, CountRunsPerRegionNameAndInAll) {
  const auto x = small_input();
  auto y = checkpoint({.name = "a"}, deep(1), x);
  y = checkpoint({.name = "b"}, deep(1), y);
  y = checkpoint({.name = "a"}, deep(1), y);
  y = checkpoint(deep(1), y);
  auto stats = checkpoint_stats();
  EXPECT_EQ(stats.total.entered, 4U);
  EXPECT_EQ(stats.total.recomputed, 0U);
  EXPECT_EQ(stats.regions.size(), 3U);
  EXPECT_EQ(stats.regions.at("a").entered, 2U);
  EXPECT_EQ(stats.regions.at("").entered, 1U);
  y.sum().backward({}, /*retain_graph=*/true);
  y.sum().backward();
  stats = checkpoint_stats();
  EXPECT_EQ(stats.total.recomputed, 8U);
  EXPECT_EQ(stats.regions.at("a").recomputed, 4U);
  EXPECT_EQ(stats.regions.at("b").recomputed, 2U);
}

TEST_F(StatsTest, NoGradModeCountsNothing) {
  const torch::NoGradGuard no_grad;
  checkpoint(deep(2), small_input());
  EXPECT_EQ(checkpoint_stats().total.entered, 0U);
}

TEST_F(StatsTest, EarlyStopsAreCountedOnlyWhenWorkWasLeftOut) {
  const auto x = small_input();
  const Fn ends_unsaved = [](at::Tensor h) { return h.tanh() + 1; };
  checkpoint({.name = "stops"}, ends_unsaved, x).sum().backward();
  checkpoint({.early_stop = false, .name = "runs on"}, ends_unsaved, x).sum().backward();
  const auto stats = checkpoint_stats();
  EXPECT_EQ(stats.regions.at("stops").early_stopped, 1U);
  EXPECT_EQ(stats.regions.at("runs on").early_stopped, 0U);
  EXPECT_EQ(stats.total.early_stopped, 1U);
}

TEST_F(StatsTest, DroppedBytesAreThoseThatForwardReallyLetGo) {
  const auto x = small_input();
  // tanh saves its result; the last is the output, which stays.
  const auto y = checkpoint({.name = "deep"}, deep(5), x);
  EXPECT_EQ(checkpoint_stats().regions.at("deep").tensors_dropped, 5U);
  EXPECT_EQ(checkpoint_stats().regions.at("deep").bytes_dropped, 4 * kBytes);
}

TEST_F(StatsTest, InputsParametersAndTheirViewsAreNotDropped) {
  const auto x = small_input();
  const auto w = torch::eye(32).requires_grad_();
  checkpoint(
      {.name = "products"},
      [w](const at::Tensor& h) { return torch::mm(torch::mm(h * 1, w.t()), w); },
      x * 2);
  // Saved are h * 1, w.t(), the first product and w.
  EXPECT_EQ(checkpoint_stats().regions.at("products").tensors_dropped, 4U);
  EXPECT_EQ(checkpoint_stats().regions.at("products").bytes_dropped, 2 * kBytes);
  const auto y = checkpoint(
      {.name = "input"}, [](const at::Tensor& h) { return h.sin() + h.cos(); }, x * 2);
  EXPECT_EQ(checkpoint_stats().regions.at("input").bytes_dropped, 0U);
}

TEST_F(StatsTest, TensorsThatShareStorageAreDroppedOnce) {
  const auto x = small_input();
  const auto y = checkpoint(
      [](const at::Tensor& h) {
        const auto t = h.exp();  // saved by exp, sin and cos
        return t.sin().sum() + t.t().cos().sum();
      },
      x);
  EXPECT_EQ(checkpoint_stats().total.tensors_dropped, 3U);
  EXPECT_EQ(checkpoint_stats().total.bytes_dropped, kBytes);
}

TEST_F(StatsTest, PoliciesCountKeptBytesAndReplayedAndRecomputedOperators) {
  const auto x = small_input();
  const auto w = torch::eye(32);
  const Fn fn = [w](at::Tensor h) { return torch::mm(torch::mm(h, w).tanh(), w).sin().cos(); };
  const auto y = checkpoint({.policy = policy::save_matmuls()}, fn, x);
  EXPECT_EQ(checkpoint_stats().total.bytes_kept, 2 * kBytes);
  EXPECT_EQ(checkpoint_stats().total.ops_replayed, 0U);
  y.sum().backward({}, /*retain_graph=*/true);
  // tanh and sin run again. cos has saved its argument when recompute stops, and does not run.
  EXPECT_EQ(checkpoint_stats().total.ops_replayed, 2U);
  EXPECT_EQ(checkpoint_stats().total.ops_recomputed, 2U);
  y.sum().backward();
  EXPECT_EQ(checkpoint_stats().total.ops_replayed, 4U);
  EXPECT_EQ(checkpoint_stats().total.bytes_kept, 2 * kBytes);
}

TEST_F(StatsTest, KeptResultsThatAutogradWouldNotSaveAreCountedApart) {
  const auto x = small_input();
  const auto w = torch::eye(32);
  // tanh saves its own result, not the product that it gets; cos saves the other product.
  const Fn fn = [w](at::Tensor h) { return torch::mm(torch::mm(h, w).tanh(), w).cos(); };
  const auto y = checkpoint({.policy = policy::save_matmuls()}, fn, x);
  EXPECT_EQ(checkpoint_stats().total.bytes_kept, 2 * kBytes);
  EXPECT_EQ(checkpoint_stats().total.bytes_unsaved, kBytes);
  EXPECT_EQ(checkpoint_stats().total.bytes_dropped, kBytes);  // of tanh
}

TEST_F(StatsTest, InputsThatAutogradWouldNotSaveAreCountedOnce) {
  const auto w = torch::eye(32).requires_grad_();
  const auto x = torch::ones({32, 32}), mask = torch::ones({32, 32});
  const auto region = [w](const at::Tensor& h, const at::Tensor& m) { return (h + w) + m; };
  const auto y = checkpoint(region, x * 2, mask);
  checkpoint(region, y, mask);
  EXPECT_EQ(checkpoint_stats().total.bytes_unsaved, 3 * kBytes);  // x * 2, mask and y
  checkpoint([w](const at::Tensor& h) { return h.exp() * w; }, (y * 2).sin());
  checkpoint([w](const at::Tensor& h) { return h * h * w; }, y * 2);  // saved inside
  EXPECT_EQ(checkpoint_stats().total.bytes_unsaved, 4 * kBytes);
}

TEST_F(StatsTest, BytesOfANestedRegionAreDroppedOnce) {
  const auto x = small_input();
  const Fn outer = [](at::Tensor h) { return checkpoint({.name = "inner"}, deep(3), h * 2).exp(); };
  const auto y = checkpoint({.name = "outer"}, outer, x);
  const size_t dropped = checkpoint_stats().total.bytes_dropped;
  EXPECT_GT(dropped, 0U);
  y.sum().backward();  // runs the inner region's forward again
  EXPECT_EQ(checkpoint_stats().regions.at("inner").entered, 2U);
  EXPECT_EQ(checkpoint_stats().total.bytes_dropped, dropped);
}

TEST_F(StatsTest, RecomputeTimeIsMeasuredPerRegion) {
  const auto x = small_input();
  checkpoint({.name = "timed"}, deep(3), x).sum().backward();
  checkpoint({.name = "not run"}, deep(3), x);
  const auto stats = checkpoint_stats();
  EXPECT_GT(stats.regions.at("timed").recompute_time.count(), 0);
  EXPECT_EQ(stats.regions.at("not run").recompute_time.count(), 0);
  EXPECT_EQ(stats.total.recompute_time, stats.regions.at("timed").recompute_time);
}

TEST_F(StatsTest, NestedRegionsCountEachForThemselves) {
  const auto x = small_input();
  const Fn outer = [](at::Tensor h) {
    return checkpoint({.name = "inner"}, deep(2), h.sin()).exp();
  };
  checkpoint({.name = "outer"}, outer, x).sum().backward();
  const auto stats = checkpoint_stats();
  EXPECT_EQ(stats.regions.at("outer").entered, 1U);
  EXPECT_EQ(stats.regions.at("outer").recomputed, 1U);
  EXPECT_EQ(stats.regions.at("inner").entered, 2U);  // in forward and in the outer recompute
  EXPECT_EQ(stats.regions.at("inner").recomputed, 1U);
}

TEST_F(StatsTest, ReentrantRegionsCountRuns) {
  checkpoint({.use_reentrant = true, .name = "reentrant"}, deep(2), small_input()).sum().backward();
  EXPECT_EQ(checkpoint_stats().regions.at("reentrant").entered, 1U);
  EXPECT_EQ(checkpoint_stats().regions.at("reentrant").recomputed, 1U);
}

TEST_F(StatsTest, AForwardThatThrowsIsNotCountedAsEntered) {
  const Fn fails = [](at::Tensor h) -> at::Tensor {
    TORCH_CHECK(!h.defined(), "fails");
    return h;
  };
  EXPECT_THROW(checkpoint(fails, small_input()), c10::Error);
  EXPECT_EQ(checkpoint_stats().total.entered, 0U);
}

}  // namespace
}  // namespace reprise::testing
