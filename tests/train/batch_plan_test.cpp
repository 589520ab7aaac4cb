// Which examples are in which micro-batch.
#include "train/batch_plan.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace reprise::testing {
namespace {

using Batches = std::vector<std::vector<int64_t>>;

/// Ten examples in batches of four, two batches a step: steps of 8 and of 2 examples.
BatchPlan ten_examples(bool shuffle = true) {
  return {{.examples = 10, .batch = 4, .accumulation = 2}, /*seed=*/5, shuffle};
}

std::vector<int64_t> flat(const Batches& batches) {
  std::vector<int64_t> all;
  for (const auto& batch : batches) {
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

std::vector<int64_t> epoch(BatchPlan& plan, int64_t number) {
  auto all = flat(plan.micro_batches(2 * number));
  const auto rest = flat(plan.micro_batches(2 * number + 1));
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

TEST(BatchPlan, InFileOrderTakesExamplesAsTheyStand) {
  auto plan = ten_examples(/*shuffle=*/false);
  EXPECT_EQ(plan.micro_batches(0), (Batches{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(plan.micro_batches(1), (Batches{{8, 9}}));
  EXPECT_EQ(plan.micro_batches(2), plan.micro_batches(0));
}

TEST(BatchPlan, VisitsEveryExampleOnceAnEpochInAnOrderOfItsOwn) {
  auto plan = ten_examples();
  std::vector<int64_t> all(10);
  std::iota(all.begin(), all.end(), 0);
  auto first = epoch(plan, 0);
  auto second = epoch(plan, 1);
  EXPECT_NE(first, second);
  EXPECT_NE(first, all);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(first, all);
  EXPECT_EQ(second, all);
}

TEST(BatchPlan, NeedsNoEarlierStepToKnowALaterOne) {
  auto from_the_start = ten_examples();
  Batches seventh;
  for (int64_t step = 0; step <= 7; ++step) {
    seventh = from_the_start.micro_batches(step);
  }
  auto resumed = ten_examples();
  EXPECT_EQ(resumed.micro_batches(7), seventh);
}

TEST(BatchPlan, CountsStepsByEpochsUnlessTheirNumberIsGiven) {
  const auto plan = ten_examples();
  EXPECT_EQ(plan.steps_per_epoch(), 2);
  EXPECT_EQ(plan.total_steps(3, -1), 6);
  EXPECT_EQ(plan.total_steps(0.5, -1), 1);
  EXPECT_EQ(plan.total_steps(1.2, -1), 3);
  EXPECT_EQ(plan.total_steps(3, 11), 11);
}

TEST(BatchPlan, MeasuresEpochsInBatches) {
  const auto plan = ten_examples();
  EXPECT_DOUBLE_EQ(plan.epoch_after(0), 0);
  EXPECT_DOUBLE_EQ(plan.epoch_after(1), 2.0 / 3);  // two of three batches
  EXPECT_DOUBLE_EQ(plan.epoch_after(2), 1);
  EXPECT_DOUBLE_EQ(plan.epoch_after(5), 2 + 2.0 / 3);
  EXPECT_FALSE(plan.ends_epoch(1));
  EXPECT_TRUE(plan.ends_epoch(2));
}

TEST(BatchPlan, RefusesSizesThatAreNoTraining) {
  const auto plan_of = [](BatchPlan::Sizes sizes) { return BatchPlan(sizes, 0, true); };
  expect_error([&] { plan_of({0, 4, 1}); }, "nothing to train on");
  expect_error([&] { plan_of({10, 0, 1}); }, "at least 1, got 0 and 1");
  expect_error([&] { plan_of({10, 4, -2}); }, "at least 1, got 4 and -2");
  expect_error([] { ten_examples().total_steps(0, -1); }, "0 epochs are no training");
}

}  // namespace
}  // namespace reprise::testing
