// From what a step did to what the solver needs to know of it.
#pragma once

#include "plan/chain_plan.h"
#include "plan/costs.h"
#include "plan/planner_options.h"
#include "plan/region_decisions.h"
#include "plan/step_trace.h"

#include <reprise/export.h>

#include <vector>

namespace reprise::planning {

/// The costs of a traced step, region by region: what can be computed again, kept, and, where
/// `options` say so, offloaded or compressed. Peaks are bounds, so no plan is promised fewer bytes
/// than it takes.
REPRISE_API ChainCosts costs_of(const StepTrace& trace, const PlannerOptions& options);

/// The decision about one region that the solver's choices for it, whose costs are `block`, stand
/// for.
RegionDecision decision_of(const TracedRegion& region,
                           const BlockCosts& block,
                           const UnitPlan& unit);

}  // namespace reprise::planning
