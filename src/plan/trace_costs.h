// From what a step did to what the solver needs to know of it.
#pragma once

#include "plan/costs.h"
#include "plan/region_decisions.h"
#include "plan/step_trace.h"

#include <reprise/export.h>

#include <vector>

namespace reprise::planning {

/// The costs of a traced step, region by region: what can be kept or computed again. Peaks of
/// backward are those of the worst decision, so no plan is promised fewer bytes than it takes.
REPRISE_API ChainCosts costs_of(const StepTrace& trace);

/// The decision about one region that the solver's choices for its operators stand for.
RegionDecision decision_of(const TracedRegion& region, const std::vector<Choice>& choices);

}  // namespace reprise::planning
