// Interpolates between the traces of two batch shapes.
//
// Batches differ in length, and tracing every length would cost a step each. The sizes of tensors,
// and so the bytes alive in an interval, are sums and maxima of polynomials of the lengths with
// nonnegative coefficients, hence convex: between two traced shapes, linear interpolation is an
// upper bound. So a plan that fits the interpolated trace fits the step.
#pragma once

#include "plan/trace/step_trace.h"

#include <reprise/export.h>

#include <optional>

namespace reprise::planning {

/// The trace at `share` (0 to 1) of the way from `from` to `to`; std::nullopt if the two did not
/// run the same operators.
REPRISE_API std::optional<StepTrace> trace_between(const StepTrace& from,
                                                   const StepTrace& to,
                                                   double share);

}  // namespace reprise::planning
