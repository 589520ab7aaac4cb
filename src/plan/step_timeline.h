// A step as its reader sees it: stage after stage, with the bytes of each by what they are for.
//
// The total of every stage is predict_peaks' own number, so a timeline cannot tell another story
// than the plan; what inputs and kept results take is counted from the trace, and the rest is what
// the stage works with.
#pragma once

#include "plan/region_decisions.h"
#include "plan/step_trace.h"
#include "plan/trace_peaks.h"

#include <reprise/export.h>
#include <reprise/plan_report.h>

#include <vector>

namespace reprise::planning {

/// `decisions`: one per region of the trace, in its order.
REPRISE_API StepTimeline step_timeline(const StepTrace& trace,
                                       const std::vector<RegionDecision>& decisions,
                                       Counted counted = Counted::Activations);

/// The same step without regions.
REPRISE_API StepTimeline plain_timeline(const StepTrace& trace,
                                        Counted counted = Counted::Activations);

/// The region whose times a plan takes for this one's: the first of its kind.
const TracedRegion& timed_as(const StepTrace& trace, size_t region);

/// What is decided about an operator's result; Recompute also where a plan cannot decide.
Decision decision_about(const TracedOp& op, const RegionDecision& decision);

/// The time of a region's recompute under a decision.
double recompute_ms(const TracedRegion& region, const RegionDecision& decision);

/// Bytes that each region holds from its forward to its backward, beyond inputs and results.
std::vector<int64_t> held_bytes(const StepTrace& trace,
                                const std::vector<RegionDecision>& decisions);

/// The two differ in the name at most.
bool decide_the_same(const RegionDecision& a, const RegionDecision& b);

}  // namespace reprise::planning
