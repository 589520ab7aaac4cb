// Runs that cannot learn are noticed, once each; runs that learn are left alone.
#include "reprise/training/run/run_warnings.h"
#include "app/training.h"
#include "app/training_flags.h"
#include "reprise/training/run/run_figures.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace reprise {
namespace {

using app::RunWarnings;
using testing::parse;

/// All warnings of a run of `steps` steps with these records.
std::vector<std::string> warnings_of(Objective objective,
                                     int64_t steps,
                                     const std::function<Json(int64_t)>& record,
                                     int64_t first_step = 0) {
  RunWarnings warnings(parse(objective), first_step);
  std::vector<std::string> all;
  for (int64_t step = first_step + 1; step <= steps; ++step) {
    for (const auto& each : warnings.after_step(step, steps, record(step))) {
      all.push_back(each);
    }
  }
  return all;
}

void expect_one(const std::vector<std::string>& warnings, const std::string& part) {
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].starts_with("warning: ")) << warnings[0];
  EXPECT_NE(warnings[0].find(part), std::string::npos) << warnings[0];
}

Json generation(double reward, double deviation, double equal_groups) {
  return {{"reward", reward},
          {"reward_std", deviation},
          {"frac_reward_zero_std", equal_groups},
          {"completions/clipped_ratio", 0.5},
          {"loss", 0.0},
          {"grad_norm", equal_groups == 1 ? 0.0 : 1.0}};
}

TEST(RunWarnings, NoticeRewardsThatNeverDiffer) {
  expect_one(warnings_of(Objective::Grpo, 90, [](int64_t) { return generation(0, 0, 1); }),
             "same reward in 10 generations (now 0)");
  expect_one(warnings_of(Objective::Grpo,
                         90,
                         [](int64_t step) { return generation(step % 2 == 0 ? 1 : 0.5, 0, 1); }),
             "nothing to learn from");
  expect_one(warnings_of(Objective::Ppo, 20, [](int64_t) { return generation(3, 0, 0); }),
             "same reward");
}

TEST(RunWarnings, LeaveRewardsAloneThatDifferSometimes) {
  EXPECT_TRUE(warnings_of(Objective::Grpo, 90, [](int64_t step) {
                return step % 9 == 0 ? generation(0.5, 0.5, 0.5) : generation(0, 0, 1);
              }).empty());
  // Not every step has a generation; those between do not count.
  EXPECT_TRUE(warnings_of(Objective::Grpo, 30, [](int64_t step) {
                return step % 4 == 0 ? generation(0, 0, 1) : Json{{"loss", 0.0}, {"grad_norm", 1}};
              }).empty());
}

TEST(RunWarnings, NoticeCompletionsThatNeverEnd) {
  expect_one(warnings_of(Objective::Grpo,
                         20,
                         [](int64_t) {
                           Json record = generation(0.5, 0.5, 0);
                           record["completions/clipped_ratio"] = 1.0;
                           return record;
                         }),
             "--max_completion_length 512");
}

TEST(RunWarnings, NoticeAGradientOfZero) {
  expect_one(warnings_of(Objective::Sft,
                         100,
                         [](int64_t step) {
                           return Json{{"loss", 2.0 / static_cast<double>(step)}, {"grad_norm", 0}};
                         }),
             "the gradient norm was 0 in 10 steps");
}

Json loss_of(double loss) {
  return {{"loss", loss}, {"grad_norm", 1.0}};
}

TEST(RunWarnings, NoticeALossThatDoesNotFall) {
  expect_one(warnings_of(Objective::Dpo, 100, [](int64_t) { return loss_of(0.6931); }),
             "after 50 of 100 steps the loss (0.6931, a mean of 10 steps) is not below its start");
  EXPECT_TRUE(warnings_of(Objective::Dpo, 100, [](int64_t step) {
                return loss_of(0.6931 - 1e-4 * static_cast<double>(step));
              }).empty());
  EXPECT_TRUE(warnings_of(Objective::Dpo, 10, [](int64_t) { return loss_of(1); }).empty())
      << "too short to tell";
  EXPECT_TRUE(warnings_of(
                  Objective::Dpo, 100, [](int64_t) { return loss_of(1); }, 40)
                  .empty())
      << "a resumed run does not know its first losses";
  EXPECT_TRUE(warnings_of(Objective::Grpo, 100, [](int64_t) { return loss_of(1); }).empty());
}

TEST(RunFigures, HaveTheObjectivesOwnAndKeepTheLast) {
  app::RunFigures dpo(Objective::Dpo);
  const auto pair = dpo.of({{"rewards/accuracies", 0.75}, {"rewards/margins", 0.31}});
  ASSERT_EQ(pair.size(), 2U);
  EXPECT_EQ(pair[0].label, "accuracy");
  EXPECT_EQ(pair[1].value, 0.31);
  app::RunFigures grpo(Objective::Grpo);
  EXPECT_TRUE(grpo.of({{"loss", 1}}).empty());
  EXPECT_EQ(grpo.of({{"reward", 0.5}, {"completions/mean_length", 12}}).size(), 2U);
  const auto between = grpo.of({{"loss", 1}});
  ASSERT_EQ(between.size(), 2U);
  EXPECT_EQ(between[0].value, 0.5);
}

class WatchedRun : public testing::Training {};

TEST_F(WatchedRun, SaysWhatItDoesFromTheStartAndShowsTheObjectivesFigures) {
  const auto result = train("dpo",
                            {"--model",
                             testing::training_fixture("models/policy"),
                             "--data",
                             testing::training_fixture("data/pairs.jsonl")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  size_t at = 0;
  for (const char* part : {"tokenising ",
                           "loading ",
                           "the first step\n",
                           "step 1/3 ",
                           " accuracy ",
                           " margin ",
                           "step 3/3 "}) {
    at = result.err.find(part, at);
    ASSERT_NE(at, std::string::npos) << part << " in:\n" << result.err;
  }
}

TEST_F(WatchedRun, WarnsOfRowsThatAreAllTruncated) {
  const auto all = sft(testing::training_fixture("data/sft_text.jsonl"), {"--max_length", "4"});
  EXPECT_NE(all.err.find("examples are truncated at --max_length 4"), std::string::npos) << all.err;
  EXPECT_NE(all.err.find("warning: "), std::string::npos) << all.err;
}

}  // namespace
}  // namespace reprise
