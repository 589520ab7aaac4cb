// The fastest decisions for a traced step within a budget of activation bytes.
//
// Note [Exact in the end]
// ~~~~~~~~~~~~~~~~~~~~~~~
// The solver's model is an upper bound on the bytes of a plan; where regions are joined it is a
// close estimate. Every plan on its curve is then counted exactly on the trace (trace_peaks.h), on
// the device and on the host, and a budget picks by these exact numbers. Plans that another one
// beats in both bytes and time are dropped, so a larger budget never predicts more time, and a
// smaller one never more bytes.
#pragma once

#include "plan/cost/planner_options.h"
#include "plan/trace/step_trace.h"

#include <reprise/export.h>
#include <reprise/region_decision.h>

#include <cstdint>
#include <vector>

namespace reprise::planning {

/// One way to run the step.
struct REPRISE_API StepPlan {
  std::vector<RegionDecision> decisions;  ///< one for each region, in order of entry
  int64_t peak_bytes = 0;                 ///< of activations, or as PlannerOptions::counted() says
  int64_t host_bytes = 0;                 ///< host memory in whole pages
  double extra_ms = 0;                    ///< over the same step without regions

  /// Whether nothing is recomputed.
  bool is_plain() const;
  /// Whether something is compressed with loss.
  bool is_lossy() const;
};

class REPRISE_API StepPlanner {
 public:
  /// Throws for options that have no effect on this step.
  explicit StepPlanner(const StepTrace& trace, PlannerOptions options = {});

  /// As given, with the speeds measured if they were not.
  const PlannerOptions& options() const { return options_; }

  /// From the smallest peak (slowest) to the largest (fastest).
  const std::vector<StepPlan>& curve() const { return curve_; }
  int64_t least_bytes() const { return curve_.front().peak_bytes; }
  /// A larger budget than this gains nothing.
  int64_t most_bytes() const { return curve_.back().peak_bytes; }

  /// The fastest plan within the budget. If none fits, throws and names the least budget.
  const StepPlan& plan_for(int64_t budget_bytes) const;

 private:
  const PlannerOptions options_;
  std::vector<StepPlan> curve_;
};

}  // namespace reprise::planning
