// Records the operators of a traced step as they begin and end: their number in the region that
// runs, their time, and what they make and write.
#pragma once

#include "plan/measure/trace_clock.h"
#include "plan/trace/region_record.h"
#include "plan/trace/step_cuts.h"
#include "plan/trace/step_trace.h"
#include "plan/trace/storage_recorder.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <vector>

namespace reprise::planning {

/// Not thread-safe.
class OpRecorder {
 public:
  /// An operator that runs.
  struct Call {
    size_t op = kNone;  ///< its number in the region that runs; kNone: outside of regions
    std::vector<const c10::StorageImpl*> arguments;
    size_t begun = 0;  ///< mark of the clock
  };

  OpRecorder(StepTrace& trace,
             std::vector<RegionRecord>& regions,
             StorageRecorder& storages,
             StepCuts& cuts,
             TraceClock& clock)
      : trace_(trace), regions_(regions), storages_(storages), cuts_(cuts), clock_(clock) {}

  Call begin(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);
  void end(const Call& call, c10::ArrayRef<c10::IValue> results);

 private:
  size_t number(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);
  bool is_timed(const Call& call) const;
  void add_storage(const at::Tensor& tensor, size_t op, size_t nth);

  StepTrace& trace_;
  std::vector<RegionRecord>& regions_;
  StorageRecorder& storages_;
  StepCuts& cuts_;
  TraceClock& clock_;
};

}  // namespace reprise::planning
