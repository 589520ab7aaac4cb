// Regions that a plan joins in one outer region: which decisions are valid, and which regions of a
// step can be joined.
#pragma once

#include "plan/trace/step_trace.h"

#include <reprise/region_decision.h>

#include <cstddef>
#include <vector>

namespace reprise::planning {

/// Throws unless every joined region exists, is joined once, and keeps nothing.
void check_joined(const std::vector<RegionDecision>& decisions);

/// Throws if the decision joins more than `regions`, the number that the step's code can join from
/// this one on.
void check_chain(const RegionDecision& decision, size_t regions);

/// For each region of the trace, how many of those after it can be joined with it. Regions that
/// write buffers are not joined: the outer region and the one inside would both hold copies.
std::vector<size_t> joinable_regions(const StepTrace& trace);

}  // namespace reprise::planning
