// The activation bytes that a traced step would need under other decisions.
//
// Note [What a decision changes]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The trace has the most bytes of every interval with all regions recomputed in full. Decisions
// change, per storage that a region made, when it is alive:
//   full    from when it is made to when it dies in forward, and from the recompute to when the
//           last node that needs it has run;
//   plain   from when it is made to when it dies in forward or, if autograd saves it, to when the
//           last node that needs it has run; nothing is recomputed, and no buffer is copied;
//   kept    from when it is made until the region lets go of everything, which is when its last
//           node has run: longer than a recomputed one. The operator does not run again. If it is
//           written in place later, what is kept is a copy from then on, in forward and in
//           recompute, beside what the program works with.
//   offloaded  as kept until the next region that gives something away has ended; again from the
//           begin of that region's recompute (the step's last such region keeps it) to when its own
//           recompute has ended and the last node that needs it has run. Inputs likewise, if nobody
//           else holds them;
//   compressed  as full, and its smaller form as kept, made right after the operator. The operator
//           does not run again, the smaller form is taken apart instead.
// Regions that are joined: Note [What joining changes].
// So the peak of a step is, over all intervals that still take place, the largest of
//   peak under full recompute + sum over storages of bytes * (alive as decided - alive in full).
// Exact as long as: the regions of the step form a chain; what a plain region does not save of its
// inputs stays alive all the same (held by the caller, or saved by what made it); autocast's cache
// is not in use; and no node allocates after it has freed a tensor that a decision keeps.
#pragma once

#include "plan/region_decisions.h"
#include "plan/step_trace.h"

#include <reprise/export.h>

#include <cstdint>
#include <vector>

namespace reprise::planning {

/// Most activation bytes at each point of a step, absolute; 0 where nothing takes place.
struct StepPeaks {
  int64_t before = 0;              ///< before the first region
  std::vector<int64_t> forward;    ///< by region, what follows it up to the next one included
  int64_t head = 0;                ///< after the last region's forward, to the first recompute
  std::vector<int64_t> recompute;  ///< by region
  std::vector<int64_t> backward;   ///< by region, from where its recompute ends (or would end)
  int64_t host = 0;                ///< bytes of host memory for what is offloaded, in whole pages

  REPRISE_API int64_t peak() const;
};

enum class Counted : uint8_t {
  Activations,
  WithGradients,  ///< and the gradients that came into being in the step
};

/// `decisions`: one per region of the trace, in its order.
REPRISE_API StepPeaks predict_peaks(const StepTrace& trace,
                                    const std::vector<RegionDecision>& decisions,
                                    Counted counted = Counted::Activations);

/// What one region needs under a decision, whatever is decided about the others. Peaks are on top
/// of what is alive when its forward begins, which is entry_bytes and what the regions before it
/// hold; backward's with its recompute. Refused for offloading, which is never a region's alone.
struct RegionPeaks {
  int64_t held = 0;  ///< between its forward and its backward, beyond its inputs and results
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

}  // namespace reprise::planning
