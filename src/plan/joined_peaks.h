// Activation bytes of regions that a plan joins, from a trace in which each was one by itself.
//
// Note [What joining changes]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// An outer region over the regions i ... j
//   forward     drops the inputs of i+1 ... j, each when the region that it is for has run;
//   recompute   runs i ... j once more when backward reaches j, on top of what was alive when the
//               trace recomputed j. A forward's bytes are those that the trace saw in forward, and
//               what plain regions save, which stays. All inputs come back. It stops where the
//               last region's would, or before that one if it is a region itself;
//   backward    is that of the trace. Regions inside recompute as they did there; what plain ones
//               save is there from the outer recompute on.
// Exact where plain regions save their inputs (otherwise these are counted too long) and no joined
// region writes a buffer. The chain hands each result to the next region and to nobody else.
#pragma once

#include "plan/step_trace.h"
#include "plan/trace_peaks.h"

#include <reprise/region_decision.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::planning {

class JoinedPeaks {
 public:
  JoinedPeaks(const StepTrace& trace, const std::vector<RegionDecision>& decisions);

  bool covers(size_t region) const { return group_of_[region] != kNone; }

  /// `bytes` more than in the trace are alive from interval `first` to `last`, both included; as a
  /// begin kNone is never, as an end it is the step's.
  struct Change {
    size_t first = kNone, last = kNone;
    int64_t bytes = 0;
  };
  /// What joining changes about the storages of joined regions.
  std::vector<Change> changes() const;

  /// Most bytes while outer regions recompute, by the region that runs then; 0: none does. `levels`
  /// is by how much decisions differ from the trace, by interval.
  std::vector<int64_t> recompute_peaks(const std::vector<int64_t>& levels, Counted counted) const;

 private:
  struct Group {
    size_t first = 0, last = 0;
    size_t recomputed = kNone;  // the first interval from the outer recompute on
    int64_t entry_bytes = 0;    // when that began, in the trace
  };

  bool is_saved(const TracedStorage& storage) const;
  bool is_rerun(const TraceInterval& interval) const;
  std::vector<int64_t> retained_in_rerun() const;

  const StepTrace& trace_;
  const std::vector<RegionDecision>& decisions_;
  std::vector<Group> groups_;
  std::vector<size_t> group_of_;  // by region; kNone: not joined
};

}  // namespace reprise::planning
