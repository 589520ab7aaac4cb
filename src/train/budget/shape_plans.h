// Plans for the batch shapes of a run's micro-batches.
//
// Lengths vary, and tracing each would cost a step. A plan for a shape is valid for every shape
// that it covers, and is used for those that are not much smaller. Between two traced shapes, plans
// are made from an interpolated trace (trace_between.h), which takes milliseconds. Only a shape
// beyond all traced ones is traced.
#pragma once

#include "plan/decisions_guard.h"
#include "plan/step_planner.h"
#include "plan/trace/step_trace.h"
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
  int64_t base_bytes = 0;      ///< the part of it that the plan does not count
  double extra_ms = 0;
  planning::StepDecisions step;

  /// What it was chosen from; null for a plan read from a file.
  std::shared_ptr<const planning::StepPlanner> planner = nullptr;
  std::shared_ptr<const planning::StepTrace> trace = nullptr;

  std::vector<RegionDecision> decisions() const;
};

class ShapePlans {
 public:
  /// Makes the plan from a trace of the shape; throws if none fits. Sets everything but shape and
  /// has_gradients.
  using Plan = std::function<ShapePlan(std::shared_ptr<const planning::StepTrace>, bool)>;
  using Trace = std::function<planning::StepTrace()>;

  explicit ShapePlans(Plan plan) : plan_(std::move(plan)) {}

  /// The plan to use. Calls `trace` if no known plan or trace covers the shape. The reference stays
  /// valid.
  ShapePlan& plan_for(const BatchShape& shape, bool has_gradients, const Trace& trace);

  /// Adds a plan that was made elsewhere.
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
