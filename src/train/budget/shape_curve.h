// The plans of a predicted run for one batch shape.
#pragma once

#include "plan/step_planner.h"
#include "plan/trace/meta_trace.h"
#include "train/budget/meta_run.h"

#include <reprise/train/model_plan.h>

#include <cstdint>
#include <vector>

namespace reprise {

/// With the speeds that the planner would measure if the device were present.
planning::PlannerOptions planner_options(const ModelPlanRequest& request);

class ShapeCurve {
 public:
  /// Traces and plans a micro-batch of `rows` rows of the requested length.
  ShapeCurve(MetaRun& run, const ModelPlanRequest& request, int64_t rows);

  const planning::StepTrace& trace() const { return predicted_.trace; }
  /// From the smallest peak (slowest) to the largest (fastest).
  const std::vector<planning::StepPlan>& curve() const { return curve_; }
  int64_t least_bytes() const { return curve_.front().peak_bytes; }
  int64_t most_bytes() const { return curve_.back().peak_bytes; }

  /// The fastest plan within `budget`, which must be at least least_bytes().
  const planning::StepPlan& plan_for(int64_t budget) const;

  /// The cost of a step under one of the plans.
  StepEstimate estimate(const planning::StepPlan& plan) const;

 private:
  int64_t rows_;
  planning::PredictedStep predicted_;
  std::vector<planning::StepPlan> curve_;
  double update_ms_, tokens_, accumulation_;
};

}  // namespace reprise
