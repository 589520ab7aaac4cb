// Regions that a plan joins in one outer region: what is valid, and what a step can do.
#pragma once

#include "plan/step_trace.h"

#include <reprise/region_decision.h>

#include <cstddef>
#include <vector>

namespace reprise::planning {

/// Throws unless all that is joined is there, joined once, and keeps nothing.
void check_joined(const std::vector<RegionDecision>& decisions);

/// Throws if `regions`, those that the step's code can join from this one on, are too few.
void check_chain(const RegionDecision& decision, size_t regions);

/// For each region of the trace how many after it can be joined with it. Those that write buffers
/// are left alone: an outer region and the one inside it would both hold copies.
std::vector<size_t> joinable_regions(const StepTrace& trace);

}  // namespace reprise::planning
