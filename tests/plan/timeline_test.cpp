// A plan's timeline and reasons say what its prediction says, and nothing else.
#include "plan/chain.h"
#include "plan/plan_explanation.h"
#include "plan/step_planner.h"
#include "plan/step_timeline.h"
#include "support/bitwise.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

using planning::StepPlan;

std::vector<StepStage> stages_of(const StepTimeline& timeline) {
  std::vector<StepStage> stages;
  for (const auto& point : timeline.points) {
    stages.push_back(point.stage);
  }
  return stages;
}

TEST(Timeline, PeaksWhereThePredictionDoes) {
  const auto trace = trace_of(Chain(4));
  const planning::StepPlanner planner(trace);
  ASSERT_GT(planner.curve().size(), 2U);
  for (const StepPlan& plan : planner.curve()) {
    const auto timeline = planning::step_timeline(trace, plan.decisions);
    EXPECT_EQ(timeline.peak(), plan.peak_bytes);
  }
  EXPECT_EQ(planning::plain_timeline(trace).peak(), planner.most_bytes());
}

TEST(Timeline, FollowsTheStepWithoutGaps) {
  const auto trace = trace_of(Chain(2));
  const auto full = planning::step_timeline(trace, all_full(trace));
  using enum StepStage;
  EXPECT_EQ(stages_of(full),
            (std::vector{Forward, Forward, Head, Recompute, Backward, Recompute, Backward}));
  EXPECT_EQ(stages_of(planning::plain_timeline(trace)),
            (std::vector{Forward, Forward, Head, Backward, Backward}));
  double now = 0;
  for (const auto& point : full.points) {
    EXPECT_DOUBLE_EQ(point.start_ms, now);
    EXPECT_GE(point.duration_ms, 0);
    now += point.duration_ms;
  }
  EXPECT_GT(trace.head_ms, 0);
  EXPECT_DOUBLE_EQ(full.duration_ms(), now);
}

TEST(Timeline, TakesAsMuchLongerAsThePlanSays) {
  const auto trace = trace_of(Chain(4));
  const planning::StepPlanner planner(trace, {.longest_segment = 1});
  const double plain = planning::plain_timeline(trace).duration_ms();
  for (const StepPlan& plan : planner.curve()) {
    const double planned = planning::step_timeline(trace, plan.decisions).duration_ms();
    EXPECT_NEAR(planned - plain, plan.extra_ms, 1e-3);
  }
}

TEST(Timeline, TellsInputsFromWhatIsKept) {
  const auto trace = trace_of(Chain(3));
  const auto keep_tanh =
      keeping(trace, [](size_t, const planning::TracedOp& op) { return op.name == "aten::tanh"; });
  const auto head_of = [](const StepTimeline& timeline) {
    return *std::find_if(timeline.points.begin(), timeline.points.end(), [](const auto& point) {
      return point.stage == StepStage::Head;
    });
  };
  // Three results are inputs of what follows them; each region keeps one more.
  const auto kept = head_of(planning::step_timeline(trace, keep_tanh));
  EXPECT_EQ(kept.input_bytes, 3 * kTensor);
  EXPECT_EQ(kept.kept_bytes, 3 * kTensor);
  EXPECT_GT(kept.head_bytes, 0);
  EXPECT_EQ(kept.working_bytes, 0);
  const auto full = head_of(planning::step_timeline(trace, all_full(trace)));
  EXPECT_EQ(full.input_bytes, 3 * kTensor);
  EXPECT_EQ(full.kept_bytes, 0);
}

const PlanRow* row_of(const std::vector<PlanRow>& rows, const std::string& op) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const PlanRow& row) { return row.op == op; });
  return found == rows.end() ? nullptr : &*found;
}

TEST(Explanation, HasARowForEachRunOfLikeRegionsAndOperator) {
  const auto trace = trace_of(Chain(4));
  auto decisions =
      keeping(trace, [](size_t, const planning::TracedOp& op) { return op.name == "aten::tanh"; });
  decisions[3] = {.name = decisions[3].name, .is_plain = true};
  const auto peak = planning::predict_peaks(trace, decisions).peak();
  const auto rows = planning::explain_plan(trace, decisions, peak);
  // The first block is a kind of its own: its input is not the step's.
  ASSERT_EQ(rows.size(), 5U + 5U + 1U);
  EXPECT_EQ(rows[0].regions, "block0");
  EXPECT_EQ(rows[5].regions, "block1 to block2");
  EXPECT_EQ(rows[5].region_count, 2U);
  EXPECT_EQ(rows[5].op, "");
  EXPECT_EQ(rows[5].bytes, kTensor);
  EXPECT_EQ(rows[10].choice, RowChoice::Plain);
  EXPECT_TRUE(contains(rows[10].why, "1 MiB saves ")) << rows[10].why;
  const auto* tanh = row_of(rows, "aten::tanh");
  EXPECT_EQ(tanh->choice, RowChoice::Keep);
  EXPECT_EQ(tanh->bytes, kTensor);
  EXPECT_TRUE(tanh->why.starts_with("1 MiB saves ")) << tanh->why;
  EXPECT_EQ(row_of(rows, "aten::mm")->choice, RowChoice::Recompute);
  EXPECT_EQ(row_of(rows, "aten::mm #2")->why, "not needed by backward");
}

TEST(Explanation, SaysThatAResultDoesNotFitOnlyIfItDoesNot) {
  const auto trace = trace_of(Chain(4));
  const auto decisions = all_full(trace);
  const auto peak = planning::predict_peaks(trace, decisions).peak();
  const std::string refusal = "exceed the budget";
  const auto why = [&](int64_t budget) {
    return row_of(planning::explain_plan(trace, decisions, budget), "aten::mm")->why;
  };
  EXPECT_TRUE(contains(why(peak), refusal)) << why(peak);
  EXPECT_FALSE(contains(why(peak + 2 * kTensor), refusal));
}

TEST(MemoryPlan, CanBeMadeFromDecisionsAlone) {
  const Chain chain(2);
  const std::vector<RegionDecision> decisions = {
      {.name = "block0", .ops = {{.name = "aten::tanh"}}}, {.name = "block1", .is_plain = true}};
  const auto plan = MemoryPlan::of(decisions, 5_MiB, 0.5);
  EXPECT_EQ(plan.decisions(), decisions);
  EXPECT_EQ(plan.budget(), 5_MiB);
  EXPECT_EQ(plan.peak_bytes(), 5_MiB);
  EXPECT_EQ(plan.extra_ms(), 0.5);
  EXPECT_TRUE(plan.curve().empty());
  EXPECT_TRUE(contains(plan.describe(), "block1: plain")) << plan.describe();
  const PlanGuard use(plan);
  chain.step();
  use.finish();
  EXPECT_FALSE(plan.has_trace());
  for (const auto& ask : std::vector<std::function<void()>>{[&] { plan.with_budget(1_GiB); },
                                                            [&] { plan.timeline(); },
                                                            [&] { plan.plain_timeline(); },
                                                            [&] { plan.explain(); }}) {
    EXPECT_TRUE(contains(message_of<c10::Error>(ask), "from decisions alone"));
  }
  EXPECT_TRUE(contains(message_of<c10::Error>([] { MemoryPlan::of({}, 1, 0); }), "found none"));
}

TEST(MemoryPlan, ShowsWhatItPredicts) {
  const Chain chain(4);
  const auto plan = reprise::plan([&] { chain.step(); }, chain.device, {.budget = 1_GiB});
  const auto least = plan.with_budget(plan.curve().front().peak_bytes);
  EXPECT_TRUE(least.has_trace());
  EXPECT_EQ(least.timeline().peak(), least.peak_bytes());
  EXPECT_EQ(least.plain_timeline().peak(), plan.peak_bytes());
  EXPECT_EQ(plan.explain().front().choice, RowChoice::Plain);
}

}  // namespace
}  // namespace reprise::testing
