// The activation bytes that a traced step would take under other decisions.
//
// Note [What a decision changes]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The trace has the peak bytes of every interval with all regions recomputed in full. A decision
// changes when each storage that a region made is alive:
//   full    from when it is made to when it dies in forward, and from the recompute to when the
//           last node that needs it has run;
//   plain   from when it is made to when it dies in forward or, if autograd saves it, to when the
//           last node that needs it has run. Nothing is recomputed, and no buffer is copied;
//   kept    from when it is made until the region releases everything, which is when its last node
//           has run: later than a recomputed storage dies. The operator does not run again. If the
//           storage is written in place later, a copy is kept from then on, in forward and in
//           recompute, beside the one that the program works with;
//   offloaded  as kept until the next region that offloads has ended its forward; then again from
//           the start of that region's recompute to when its own recompute has ended and the last
//           node that needs it has run. The last region of the step that offloads keeps it on the
//           device. The same holds for inputs that nothing else holds;
//   compressed  as full, and its compressed form as kept, made right after the operator. The
//           operator does not run again; the compressed form is restored instead.
// For joined regions see Note [What joining changes].
// So the peak of a step is the largest, over all intervals that still take place, of
//   peak under full recompute + sum over storages of bytes * (alive as decided - alive in full).
// This is exact if the regions of the step form a chain; inputs that a plain region does not save
// stay alive anyway (held by the caller, or saved by the operator that made them); autocast's cache
// is not in use; and no node allocates after it has freed a tensor that a decision keeps.
#pragma once

#include "plan/cost/decided_trace.h"
#include "plan/trace/step_trace.h"

#include <reprise/export.h>
#include <reprise/region_decision.h>

#include <cstdint>
#include <vector>

namespace reprise::planning {

/// Most activation bytes at each point of a step, in absolute numbers; 0 for points that do not
/// take place.
struct StepPeaks {
  int64_t before = 0;              ///< before the first region
  std::vector<int64_t> forward;    ///< by region, including what follows it up to the next one
  int64_t head = 0;                ///< after the last region's forward, to the first recompute
  std::vector<int64_t> recompute;  ///< by region
  std::vector<int64_t> backward;   ///< by region, from where its recompute ends (or would end)
  int64_t host = 0;                ///< host memory for offloaded tensors, in whole pages

  REPRISE_API int64_t peak() const;
};

enum class Counted : uint8_t {
  Activations,
  WithGradients,  ///< also the gradients that the step creates
};

/// `decisions`: one per region of the trace, in its order.
REPRISE_API StepPeaks predict_peaks(const StepTrace& trace,
                                    const std::vector<RegionDecision>& decisions,
                                    Counted counted = Counted::Activations);
/// The same for decisions by index, which must fit the trace and be valid (check_joined).
StepPeaks predict_peaks(const StepTrace& trace,
                        const std::vector<TracedDecision>& regions,
                        Counted counted);

/// What one region needs under a decision, independently of the decisions about others. Peaks are
/// on top of what is alive when its forward begins: entry_bytes, and what the regions before it
/// hold. The backward peak includes the recompute. Decisions that offload are refused, because
/// their bytes depend on other regions.
struct RegionPeaks {
  int64_t held = 0;  ///< between forward and backward, beyond its inputs and results
  int64_t forward = 0;
  int64_t backward = 0;
};

/// In a chain of regions the peaks of a step are sums of these:
///   forward of region i    entry_bytes(i) + sum of held(j) for j < i + forward(i)
///   head                   head_bytes + sum of held(j) for all j + head_peak
///   backward of region i   entry_bytes(i) + sum of held(j) for j < i + backward(i)
REPRISE_API RegionPeaks region_peaks(const StepTrace& trace,
                                     size_t region,
                                     const RegionDecision& decision);

/// RegionPeaks::held alone, which needs no count of the step.
int64_t region_held(const StepTrace& trace, size_t region, const RegionDecision& decision);

}  // namespace reprise::planning
