// From the solver's plan for a chain of blocks to decisions about the regions of the step.
#pragma once

#include "plan/cost/chain_costs.h"
#include "plan/solve/chain_plan.h"
#include "plan/trace/step_trace.h"

#include <reprise/region_decision.h>

#include <vector>

namespace reprise::planning {

/// One decision per region of the trace, in its order. `costs` are those that the plan was solved
/// for.
std::vector<RegionDecision> decisions_of(const StepTrace& trace,
                                         const ChainCosts& costs,
                                         const ChainPlan& plan);

}  // namespace reprise::planning
