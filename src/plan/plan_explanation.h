// Explains the decisions of a plan with the numbers of its trace.
#pragma once

#include "plan/cost/trace_peaks.h"
#include "plan/trace/step_trace.h"

#include <reprise/export.h>
#include <reprise/plan_report.h>
#include <reprise/region_decision.h>

#include <cstdint>
#include <vector>

namespace reprise::planning {

/// For each run of regions of one kind with the same decision: a row for the whole region and,
/// unless it is plain or joined, one for each operator. A row says that a result does not fit the
/// budget only if predict_peaks says so.
REPRISE_API std::vector<PlanRow> explain_plan(const StepTrace& trace,
                                              const std::vector<RegionDecision>& decisions,
                                              int64_t budget,
                                              Counted counted = Counted::Activations);

}  // namespace reprise::planning
