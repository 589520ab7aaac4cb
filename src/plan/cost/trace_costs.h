// From a trace to the costs that the solver works with.
#pragma once

#include "plan/cost/chain_costs.h"
#include "plan/cost/planner_options.h"
#include "plan/trace/step_trace.h"

#include <reprise/export.h>

namespace reprise::planning {

/// The costs of a traced step, region by region: what can be recomputed, kept, and, if `options`
/// allow it, offloaded or compressed. Peaks are upper bounds, so no plan takes more bytes than
/// promised.
REPRISE_API ChainCosts costs_of(const StepTrace& trace, const PlannerOptions& options);

}  // namespace reprise::planning
