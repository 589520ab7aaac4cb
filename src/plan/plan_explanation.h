// Why a plan decides as it does, in numbers of the trace that it was made from.
#pragma once

#include "plan/region_decisions.h"
#include "plan/step_trace.h"
#include "plan/trace_peaks.h"

#include <reprise/export.h>
#include <reprise/plan_report.h>

#include <cstdint>
#include <vector>

namespace reprise::planning {

/// For each run of regions of one kind that are decided about alike: a row for the whole and, where
/// it is a region, one for each operator. A row says that a result does not fit the budget only
/// where predict_peaks says so.
REPRISE_API std::vector<PlanRow> explain_plan(const StepTrace& trace,
                                              const std::vector<RegionDecision>& decisions,
                                              int64_t budget,
                                              Counted counted = Counted::Activations);

}  // namespace reprise::planning
