// The trace of a step that was not run, between two that were.
//
// Batches differ in length; tracing every length would cost a step each. Sizes of tensors, and with
// them the bytes alive in an interval, are sums and maxima of polynomials of the lengths without
// negative terms, hence convex: on the line between two traced shapes the chord bounds them from
// above. A plan that fits the trace between therefore fits the step.
#pragma once

#include "plan/step_trace.h"

#include <reprise/export.h>

#include <optional>

namespace reprise::planning {

/// The trace at `share` (0 to 1) of the way from `from` to `to`; nothing if the two did not run
/// the same operators.
REPRISE_API std::optional<StepTrace> trace_between(const StepTrace& from,
                                                   const StepTrace& to,
                                                   double share);

}  // namespace reprise::planning
