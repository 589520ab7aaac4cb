// Activation bytes of regions that a plan joins, from a trace in which each ran by itself.
//
// Note [What joining changes]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// An outer region over the regions i ... j
//   forward     drops the inputs of i+1 ... j, each when its region has run;
//   recompute   runs i ... j once more when backward reaches j, on top of what was alive when the
//               trace recomputed j. Each forward takes the bytes that it took in the trace, and
//               whatever plain regions save stays. All inputs come back. It stops where the last
//               region's own recompute would, or before the last one if that is a region itself;
//   backward    is that of the trace. Regions inside recompute as in the trace; what plain ones
//               save is alive from the outer recompute on.
// This is exact if plain regions save their inputs (otherwise inputs are counted too long) and no
// joined region writes a buffer. Only the next region of the chain gets a region's result.
#pragma once

#include "plan/cost/decided_trace.h"
#include "plan/cost/trace_peaks.h"
#include "plan/trace/step_trace.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::planning {

class JoinedPeaks {
 public:
  JoinedPeaks(const StepTrace& trace, const std::vector<TracedDecision>& decisions);

  bool covers(size_t region) const { return group_of_[region] != kNone; }

  /// `bytes` more than in the trace are alive from interval `first` to `last`, both included.
  /// `first` kNone: never; `last` kNone: to the end of the step.
  struct Change {
    size_t first = kNone, last = kNone;
    int64_t bytes = 0;
  };
  /// How joining changes the life of the joined regions' storages.
  std::vector<Change> changes() const;

  /// Most bytes while outer regions recompute, by the region that runs at that time; 0 for others.
  /// `levels`: by interval, how many bytes more than in the trace are alive.
  std::vector<int64_t> recompute_peaks(const std::vector<int64_t>& levels, Counted counted) const;

 private:
  struct Group {
    size_t first = 0, last = 0;
    size_t recomputed = kNone;  // the first interval from the outer recompute on
    int64_t entry_bytes = 0;    // alive in the trace when that began
  };

  bool is_saved(const TracedStorage& storage) const;
  bool is_rerun(const TraceInterval& interval) const;
  std::vector<int64_t> retained_in_rerun() const;

  const StepTrace& trace_;
  const std::vector<TracedDecision>& decisions_;
  std::vector<Group> groups_;
  std::vector<size_t> group_of_;  // by region; kNone: not joined
};

}  // namespace reprise::planning
