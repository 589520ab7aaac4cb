// The fastest decisions for a traced step within a budget of activation bytes.
//
// Note [Exact in the end]
// ~~~~~~~~~~~~~~~~~~~~~~~
// The solver's model bounds the bytes of a plan from above; where regions are joined it estimates
// them closely. Every plan of its curve is then counted exactly on the trace (trace_peaks.h), on
// the device and on the host, and a budget picks by these numbers. Of plans that are neither
// smaller nor faster than another nothing remains, so more bytes never predict more time, and fewer
// never more bytes.
#pragma once

#include "plan/planner_options.h"
#include "plan/region_decisions.h"
#include "plan/step_trace.h"

#include <reprise/export.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::planning {

struct REPRISE_API StepPlan {
  std::vector<RegionDecision> decisions;  ///< one for each region, in order of entry
  int64_t peak_bytes = 0;                 ///< of what the planner counts
  int64_t host_bytes = 0;                 ///< of host memory, in whole pages
  double extra_ms = 0;                    ///< over the same step without regions

  bool is_plain() const;
  /// Whether something is compressed so that bits change.
  bool is_lossy() const;
};

class REPRISE_API StepPlanner {
 public:
  /// Throws for options that have no effect on this step.
  explicit StepPlanner(const StepTrace& trace, PlannerOptions options = {});

  /// With what they left to be measured.
  const PlannerOptions& options() const { return options_; }

  /// From the smallest peak (slowest) to the largest (fastest).
  const std::vector<StepPlan>& curve() const { return curve_; }
  int64_t least_bytes() const { return curve_.front().peak_bytes; }
  /// From here on there is nothing to gain.
  int64_t most_bytes() const { return curve_.back().peak_bytes; }

  /// The fastest plan within the budget. Throws, and names the least budget, if there is none.
  const StepPlan& plan_for(int64_t budget_bytes) const;

 private:
  const PlannerOptions options_;
  std::vector<StepPlan> curve_;
};

}  // namespace reprise::planning
