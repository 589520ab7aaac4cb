// From the solver's plan for a chain of blocks to decisions about the regions of the step.
#pragma once

#include "plan/cost/chain_costs.h"
#include "plan/cost/decided_trace.h"
#include "plan/solve/chain_plan.h"

#include <vector>

namespace reprise::planning {

/// One per region of the trace, in its order. `costs` are those that the plan was solved for: an
/// operator of a block is one of its region.
std::vector<TracedDecision> traced_decisions(const ChainCosts& costs,
                                             const std::vector<UnitPlan>& units);

}  // namespace reprise::planning
