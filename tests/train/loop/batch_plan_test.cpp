// Which examples are in which micro-batch.
#include "train/loop/batch_plan.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using Batches = std::vector<std::vector<int64_t>>;

/// Ten examples in batches of four, two batches a step: steps of 8 and of 2 examples.
BatchPlan ten_examples(bool shuffle = true) {
  return {{.examples = 10, .batch = 4, .accumulation = 2}, /*seed=*/5, shuffle};
}

/// Those that count.
Batches batches_of(BatchPlan& plan, int64_t step) {
  Batches batches;
  for (auto& each : plan.micro_batches(step)) {
    if (!each.is_filler) {
      batches.push_back(std::move(each.examples));
    }
  }
  return batches;
}

std::vector<int64_t> epoch(BatchPlan& plan, int64_t number) {
  std::vector<int64_t> all;
  for (const int64_t step : {2 * number, 2 * number + 1}) {
    for (const auto& batch : batches_of(plan, step)) {
      all.insert(all.end(), batch.begin(), batch.end());
    }
  }
  return all;
}

TEST(BatchPlan, InFileOrderTakesExamplesAsTheyStand) {
  auto plan = ten_examples(/*shuffle=*/false);
  EXPECT_EQ(batches_of(plan, 0), (Batches{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(batches_of(plan, 1), (Batches{{8, 9}}));
  EXPECT_EQ(batches_of(plan, 2), batches_of(plan, 0));
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
    seventh = batches_of(from_the_start, step);
  }
  auto resumed = ten_examples();
  EXPECT_EQ(batches_of(resumed, 7), seventh);
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

/// What processes have of a step, in the order of one process: micro-batch i * processes + rank is
/// the i-th of its rank. Checks what is asked of fillers.
Batches dealt(std::vector<BatchPlan>& plans, int64_t step) {
  std::vector<std::vector<MicroBatchRows>> hands;
  for (auto& plan : plans) {
    hands.push_back(plan.micro_batches(step));
    EXPECT_EQ(hands.back().size(), hands.front().size()) << "they would wait for each other";
  }
  Batches batches;
  bool was_filler = false;
  for (size_t i = 0; i < hands.front().size(); ++i) {
    for (const auto& hand : hands) {
      if (hand[i].is_filler) {
        EXPECT_EQ(hand[i].examples, (hand[0].is_filler ? hands[0] : hand)[0].examples);
      } else {
        EXPECT_FALSE(was_filler) << "only the last ones may lack";
        batches.push_back(hand[i].examples);
      }
      was_filler = hand[i].is_filler;
    }
  }
  return batches;
}

TEST(BatchPlan, DealsToProcessesWhatOneHasWithAsManyTimesTheAccumulation) {
  for (const int64_t examples : {1, 2, 5, 8, 9, 23, 24}) {
    for (const int64_t batch : {1, 2, 3, 8}) {
      for (const int64_t accumulation : {1, 2, 3}) {
        for (const int64_t processes : {1, 2, 3, 5}) {
          SCOPED_TRACE(::testing::Message() << examples << " examples, " << batch << " x "
                                            << accumulation << " x " << processes);
          BatchPlan alone({examples, batch, accumulation * processes}, 5, true);
          std::vector<BatchPlan> plans;
          for (int64_t rank = 0; rank < processes; ++rank) {
            plans.push_back({{examples, batch, accumulation, rank, processes}, 5, true});
          }
          for (int64_t step = 0; step < 2 * alone.steps_per_epoch() + 1; ++step) {
            EXPECT_EQ(dealt(plans, step), batches_of(alone, step));
            EXPECT_EQ(plans.back().epoch_after(step), alone.epoch_after(step));
            EXPECT_EQ(plans.back().ends_epoch(step), alone.ends_epoch(step));
          }
          EXPECT_EQ(plans.front().total_steps(1.5, -1), alone.total_steps(1.5, -1));
        }
      }
    }
  }
}

TEST(BatchPlan, RefusesSizesThatAreNoTraining) {
  const auto plan_of = [](BatchPlan::Sizes sizes) { return BatchPlan(sizes, 0, true); };
  expect_error([&] { plan_of({0, 4, 1}); }, "nothing to train on");
  expect_error([&] { plan_of({10, 0, 1}); }, "at least 1, got 0 and 1");
  expect_error([&] { plan_of({10, 4, -2}); }, "at least 1, got 4 and -2");
  expect_error([] { ten_examples().total_steps(0, -1); }, "expected epochs above 0, got 0");
}

}  // namespace
}  // namespace reprise::testing
