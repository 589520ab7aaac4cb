// A step as a list of stages, with the bytes of each by purpose.
//
// The total of every stage is the number that predict_peaks gives, so a timeline cannot contradict
// the plan. The bytes of inputs and kept results are counted from the trace; the rest is the
// stage's working memory.
#pragma once

#include "plan/cost/trace_peaks.h"
#include "plan/trace/step_trace.h"

#include <reprise/export.h>
#include <reprise/plan_report.h>
#include <reprise/region_decision.h>

#include <vector>

namespace reprise::planning {

/// `decisions`: one per region of the trace, in its order.
REPRISE_API StepTimeline step_timeline(const StepTrace& trace,
                                       const std::vector<RegionDecision>& decisions,
                                       Counted counted = Counted::Activations);

/// The same step without regions.
REPRISE_API StepTimeline plain_timeline(const StepTrace& trace,
                                        Counted counted = Counted::Activations);

/// The region whose times a plan uses for this one: the first of its kind.
const TracedRegion& timed_as(const StepTrace& trace, size_t region);

/// The decision about an operator's result. Recompute also if the operator cannot be kept.
Decision decision_about(const TracedOp& op, const RegionDecision& decision);

/// The time of a region's recompute under a decision.
double recompute_ms(const TracedRegion& region, const RegionDecision& decision);

/// Bytes that each region holds from its forward to its backward, beyond inputs and results.
std::vector<int64_t> held_bytes(const StepTrace& trace,
                                const std::vector<RegionDecision>& decisions);

/// Whether the two differ at most in the name.
bool decide_the_same(const RegionDecision& a, const RegionDecision& b);

}  // namespace reprise::planning
