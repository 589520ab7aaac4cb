// Which checkpoints a run makes and keeps, and when it gives up.
#include "support/temporary_folder.h"
#include "train/collecting_observer.h"
#include "train/training_case.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

namespace reprise::testing {
namespace {

/// Evaluated on what it is trained on, the loss falls; so with "greater is better" the first
/// evaluation stays the best.
class TrainerCheckpoints : public ::testing::Test {
 protected:
  TrainingCase make(int64_t steps) {
    Json run = usual_run("sft", steps);
    run["eval_data"] = run["data"];
    TrainingCase one("sft", run, folder_);
    one.options.best_metric = "eval_loss";
    one.options.greater_is_better = true;
    return one;
  }

  std::set<std::string> checkpoints() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "output")) {
      if (entry.is_directory()) {
        names.insert(entry.path().filename());
      }
    }
    return names;
  }

  void TearDown() override {
    for (size_t i = 1; i < observer_.evaluations.size(); ++i) {
      ASSERT_LT(observer_.evaluations[i]["eval_loss"], observer_.evaluations[i - 1]["eval_loss"]);
    }
  }

  TemporaryFolder folder_;
  CollectingObserver observer_;
};

using Names = std::set<std::string>;

TEST_F(TrainerCheckpoints, KeepsTheNewestAndTheBest) {
  auto one = make(8);
  one.options.eval_steps = 2;
  one.options.save_steps = 1;
  one.options.save_total_limit = 2;
  const auto summary = one.train(observer_);
  EXPECT_EQ(summary.end, TrainingEnd::Done);
  EXPECT_EQ(checkpoints(), (Names{"checkpoint-2", "checkpoint-7", "checkpoint-8"}));
  EXPECT_EQ(summary.best_checkpoint, one.options.output / "checkpoint-2");
}

TEST_F(TrainerCheckpoints, WithoutALimitKeepsAllAndTheLast) {
  auto one = make(7);
  one.options.best_metric.clear();
  one.options.save_steps = 2;
  const auto summary = one.train(observer_);
  EXPECT_EQ(checkpoints(), (Names{"checkpoint-2", "checkpoint-4", "checkpoint-6", "checkpoint-7"}));
  EXPECT_TRUE(summary.best_checkpoint.empty());
}

TEST_F(TrainerCheckpoints, TheBestIsSavedEvenIfNoneIsDue) {
  auto one = make(6);
  one.options.greater_is_better = false;  // every evaluation is the best so far
  one.options.eval_steps = 3;
  one.options.save_steps = 0;
  const auto summary = one.train(observer_);
  EXPECT_EQ(checkpoints(), (Names{"checkpoint-3", "checkpoint-6"}));
  EXPECT_EQ(summary.best_checkpoint, one.options.output / "checkpoint-6");
}

TEST_F(TrainerCheckpoints, EvaluatesAtTheEndOfEachEpochUnlessToldWhen) {
  auto one = make(16);  // 7 steps an epoch
  one.train(observer_);
  std::vector<int64_t> steps;
  for (const Json& record : observer_.evaluations) {
    steps.push_back(record["step"]);
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{7, 14, 16}));
}

TEST_F(TrainerCheckpoints, GivesUpAfterSoManyEvaluationsWithoutANewBest) {
  auto one = make(20);
  one.options.eval_steps = 1;
  one.options.early_stopping_patience = 3;
  const auto summary = one.train(observer_);
  EXPECT_EQ(summary.end, TrainingEnd::EarlyStopped);
  EXPECT_EQ(summary.progress.step, 4);
  EXPECT_EQ(summary.best_checkpoint, one.options.output / "checkpoint-1");
}

TEST_F(TrainerCheckpoints, PatienceIsNotRenewedByResuming) {
  auto first = make(20);
  first.options.eval_steps = 1;
  first.options.early_stopping_patience = 3;
  observer_.stop_after = 3;
  EXPECT_EQ(first.train(observer_).end, TrainingEnd::Stopped);
  auto second = make(20);
  second.options = first.options;
  second.resume_from = latest_checkpoint(first.options.output);
  const auto summary = second.train(observer_);
  EXPECT_EQ(summary.end, TrainingEnd::EarlyStopped);
  EXPECT_EQ(summary.progress.step, 4);
}

TEST_F(TrainerCheckpoints, CarryTheConfigurationOfTheirRun) {
  auto one = make(2);
  one.options.configuration = {{"learning_rate", 0.002}, {"model", "policy"}};
  observer_.stop_after = 1;
  one.train(observer_);
  const auto checkpoint = latest_checkpoint(one.options.output);
  EXPECT_EQ(checkpoint_configuration(checkpoint), one.options.configuration);
  expect_error([&] { checkpoint_configuration(folder_.path()); }, "is not a checkpoint");
}

}  // namespace
}  // namespace reprise::testing
