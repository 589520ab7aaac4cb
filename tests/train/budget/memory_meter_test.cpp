// The classes of a step's memory, with tensors of known size standing for what a step allocates.
#include "support/tensors.h"

#include <reprise/memory.h>
#include "train/budget/memory_meter.h"

#include <gtest/gtest.h>

#include <vector>

namespace reprise::testing {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kRounding = 16384;  // of malloc, for the few tensors of a step

at::Tensor tensor_of(int64_t bytes) {
  return torch::empty({bytes}, torch::kByte);
}

void expect_about(int64_t found, int64_t expected) {
  EXPECT_NEAR(static_cast<double>(found), static_cast<double>(expected), kRounding);
}

/// Forward that keeps 3 MiB and needs 1 more for a moment; a loss that needs 5 for a moment and
/// keeps 1; backward that needs 2 beside what it frees, and leaves a gradient of 1.
at::Tensor run_micro_batch(MemoryMeter& meter) {
  meter.begin_forward();
  auto kept = tensor_of(3 * kMiB);
  tensor_of(kMiB);
  meter.end_forward();
  auto loss = tensor_of(kMiB);
  tensor_of(4 * kMiB);
  meter.end_loss();
  auto gradient = tensor_of(kMiB);
  tensor_of(2 * kMiB);
  kept.reset();
  loss.reset();
  meter.end_backward();
  return gradient;
}

TEST(MemoryMeter, SharesOutThePeakOfTheLoss) {
  const auto parameters = tensor_of(2 * kMiB);
  const int64_t before = live_bytes(at::kCPU);
  MemoryMeter meter(at::kCPU);
  meter.begin_step({.parameters = before});
  const auto gradient = run_micro_batch(meter);
  meter.end_step();
  expect_about(meter.activation_bytes(), 3 * kMiB);
  expect_about(meter.peak_bytes(), before + (3 + 1 + 4) * kMiB);
  const auto classes = meter.classes();
  EXPECT_EQ(classes.parameters, before);
  expect_about(classes.activations, 3 * kMiB);
  expect_about(classes.logits, 5 * kMiB);
  expect_about(classes.gradients, 0);
  expect_about(classes.recompute, 0);
  EXPECT_EQ(classes.total(), meter.peak_bytes());
}

TEST(MemoryMeter, SharesOutThePeakOfBackward) {
  MemoryMeter meter(at::kCPU);
  const int64_t before = live_bytes(at::kCPU);
  meter.begin_step({.parameters = before});
  std::vector<at::Tensor> gradients;
  for (int i = 0; i < 2; ++i) {
    meter.begin_forward();
    auto kept = tensor_of(3 * kMiB);
    meter.end_loss();
    gradients.push_back(tensor_of(kMiB));
    tensor_of(6 * kMiB);
    kept.reset();
    meter.end_backward();
  }
  meter.end_step();
  const auto classes = meter.classes();
  // The second: a gradient was there, another came, and 6 MiB were needed for a moment.
  expect_about(meter.peak_bytes(), before + (1 + 3 + 1 + 6) * kMiB);
  expect_about(classes.gradients, 2 * kMiB);
  expect_about(classes.activations, 3 * kMiB);
  expect_about(classes.recompute, 6 * kMiB);
  EXPECT_EQ(classes.total(), meter.peak_bytes());
}

// Backward has freed most of what forward kept when it needs the most, and half of the gradients
// come later.
TEST(MemoryMeter, CountsWhatIsThereAtThePeakAndNotWhatWasThereBefore) {
  const int64_t before = live_bytes(at::kCPU);
  MemoryMeter meter(at::kCPU);
  meter.begin_step({.parameters = before});
  meter.begin_forward();
  auto early = tensor_of(4 * kMiB), late = tensor_of(2 * kMiB);
  meter.end_forward();
  auto logits = tensor_of(3 * kMiB);
  meter.end_loss();
  logits.reset();
  late.reset();
  const auto first = tensor_of(kMiB);
  meter.note_gradient(kMiB);
  tensor_of(9 * kMiB);
  early.reset();
  const auto second = tensor_of(kMiB);
  meter.note_gradient(kMiB);
  meter.end_backward();
  meter.end_step();
  expect_about(meter.activation_bytes(), 6 * kMiB);
  expect_about(meter.activation_peak_bytes(), (4 + 9) * kMiB);
  expect_about(meter.peak_bytes(), before + (4 + 1 + 9) * kMiB);
  const auto classes = meter.classes();
  expect_about(classes.activations, 4 * kMiB);
  expect_about(classes.logits, 0);
  expect_about(classes.gradients, kMiB);
  expect_about(classes.recompute, 9 * kMiB);
  expect_about(classes.other, 0);
  EXPECT_EQ(classes.total(), meter.peak_bytes());
}

// The first update makes the optimizer's state, beside gradients and memory to work with.
TEST(MemoryMeter, CountsStateThatTheUpdateMadeAsTheOptimizers) {
  const int64_t before = live_bytes(at::kCPU);
  MemoryMeter meter(at::kCPU);
  meter.begin_step({.parameters = before});
  const auto gradient = run_micro_batch(meter);
  const auto state = tensor_of(20 * kMiB);
  tensor_of(kMiB);
  meter.end_step();
  const auto classes = meter.classes();
  expect_about(meter.peak_bytes(), before + (1 + 20 + 1) * kMiB);
  expect_about(classes.gradients, kMiB);
  expect_about(classes.optimizer, 20 * kMiB);
  expect_about(classes.other, kMiB);
  EXPECT_EQ(classes.total(), meter.peak_bytes());
}

TEST(MemoryMeter, ShowsTheMostOfTheMicroBatches) {
  MemoryMeter meter(at::kCPU);
  meter.begin_step({});
  for (const int64_t size : {1, 4, 2}) {
    meter.begin_forward();
    const auto kept = tensor_of(size * kMiB);
    meter.end_loss();  // an objective that does not say where forward ends
    meter.end_backward();
  }
  meter.end_step();
  expect_about(meter.activation_bytes(), 4 * kMiB);
}

TEST(MemoryMeter, StartsAnewWithEachStep) {
  MemoryMeter meter(at::kCPU);
  meter.begin_step({});
  run_micro_batch(meter);
  meter.end_step();
  meter.begin_step({});
  meter.end_step();
  EXPECT_EQ(meter.activation_bytes(), 0);
  EXPECT_EQ(meter.peak_bytes(), live_bytes(at::kCPU));
}

TEST(MemoryMeter, ClassesAddUpToThePeakEvenIfTheFixedOnesAreElsewhere) {
  MemoryMeter meter(at::kCPU);
  const int64_t live = live_bytes(at::kCPU);
  meter.begin_step({.parameters = live, .optimizer = 128 * kMiB});
  run_micro_batch(meter);
  meter.end_step();
  EXPECT_EQ(meter.classes().total(), meter.peak_bytes());
  EXPECT_EQ(meter.classes().parameters, live);
  EXPECT_LT(meter.classes().optimizer, 128 * kMiB);
}

TEST(MemoryMeter, AFailedForwardCountsAsActivations) {
  MemoryMeter meter(at::kCPU);
  meter.begin_step({});
  meter.begin_forward();
  const auto kept = tensor_of(6 * kMiB);
  meter.give_up();
  expect_about(meter.activation_bytes(), 6 * kMiB);
}

TEST(MemoryClasses, AreWrittenUnderTheirNames) {
  const MemoryClasses classes{1, 2, 3, 4, 5, 6, 7};
  const Json json = classes.to_json();
  EXPECT_EQ(json.size(), 7);
  EXPECT_EQ(json["parameters"], 1);
  EXPECT_EQ(json["other"], 7);
  EXPECT_EQ(classes.total(), 28);
}

}  // namespace
}  // namespace reprise::testing
