// What a plan wants to know of a traced step, computed from what was recorded while it ran.
#pragma once

#include "plan/measure/trace_clock.h"
#include "plan/trace/region_record.h"
#include "plan/trace/step_trace.h"
#include "plan/trace/storage_recorder.h"

#include <cstddef>
#include <vector>

namespace reprise::planning {

class TraceSummary {
 public:
  /// `begun`: the clock's mark when the step began. The clock is finished.
  TraceSummary(const std::vector<RegionRecord>& regions,
               const StorageRecorder& storages,
               const TraceClock& clock,
               size_t begun)
      : regions_(regions), storages_(storages), clock_(clock), begun_(begun) {}

  /// Adds peaks, inputs, times and kinds to a trace that has intervals, storages and operators.
  void fill_in(StepTrace& trace) const;

 private:
  void fill_in_inputs(StepTrace& trace) const;
  void fill_in_times(StepTrace& trace) const;
  void fill_in_kinds(StepTrace& trace) const;

  const std::vector<RegionRecord>& regions_;
  const StorageRecorder& storages_;
  const TraceClock& clock_;
  const size_t begun_;
};

}  // namespace reprise::planning
