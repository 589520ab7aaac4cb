// Plans for the shapes of a run's micro-batches.
//
// Lengths vary, and tracing each would cost a step. A plan for a shape holds for all that it
// covers, and is used for those that are not much smaller. Between two traced shapes plans are made
// from what lies between their traces (trace_between.h), which takes milliseconds. Only a shape
// beyond all traced ones is traced.
#pragma once

#include "plan/region_decisions.h"
#include "plan/step_planner.h"
#include "plan/step_trace.h"
#include "train/budget/batch_shape.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace reprise {

struct ShapePlan {
  BatchShape shape;
  bool has_gradients = false;  ///< gradients of earlier micro-batches are in place
  int64_t peak_bytes = 0;      ///< predicted
  int64_t base_bytes = 0;      ///< of it, what is there besides what the plan is about
  double extra_ms = 0;
  planning::PlannedStep step;

  /// What it was chosen from; null for a plan that was read from a file.
  std::shared_ptr<const planning::StepPlanner> planner = nullptr;
  std::shared_ptr<const planning::StepTrace> trace = nullptr;

  std::vector<RegionDecision> decisions() const;
};

class ShapePlans {
 public:
  /// From a trace of the shape to its plan: throws if there is none. Sets all but shape and
  /// has_gradients.
  using Plan = std::function<ShapePlan(std::shared_ptr<const planning::StepTrace>, bool)>;
  using Trace = std::function<planning::StepTrace()>;

  explicit ShapePlans(Plan plan) : plan_(std::move(plan)) {}

  /// The plan to follow. `trace` is called if nothing known will do. Stays where it is.
  ShapePlan& plan_for(const BatchShape& shape, bool has_gradients, const Trace& trace);

  /// A plan from elsewhere.
  void add(ShapePlan plan);

  const std::vector<std::unique_ptr<ShapePlan>>& all() const { return plans_; }

 private:
  struct Traced {
    BatchShape shape;
    std::shared_ptr<const planning::StepTrace> trace;
  };

  ShapePlan* find(const BatchShape& shape, bool has_gradients) const;
  std::optional<Traced> interpolated(const BatchShape& shape) const;

  Plan plan_;
  std::vector<Traced> traces_;
  std::vector<std::unique_ptr<ShapePlan>> plans_;
};

}  // namespace reprise
