// Cuts a traced step into intervals and counts the bytes of each: Note [A step in intervals].
#pragma once

#include "plan/measure/activation_counter.h"
#include "plan/trace/region_record.h"
#include "plan/trace/step_trace.h"
#include "plan/trace/storage_recorder.h"

#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::planning {

/// Knows where the step is, and writes StepTrace::intervals. Not thread-safe.
class StepCuts {
 public:
  /// `regions` are those entered so far, in the order of StepTrace::regions.
  StepCuts(c10::Device device,
           StepTrace& trace,
           StorageRecorder& storages,
           const std::vector<RegionRecord>& regions);

  ActivationCounter& counter() { return *counter_; }
  StepPhase phase() const { return phase_; }
  size_t region() const { return region_; }
  bool is_in_region() const;
  /// Activation bytes at the last cut.
  int64_t level() const { return level_; }

  /// The step begins.
  void begin();
  /// Stops counting, on the thread that made it. No cuts after that.
  void stop() { counter_.reset(); }
  /// From here on the step is in this phase of this region.
  void enter(StepPhase phase, size_t region);
  /// A region inside the one that runs has begun, and may copy buffers of its own.
  void note_inner_region() { has_inner_region_ = true; }

  /// Cuts before something that is observed. Between two observed things nothing is computed, but
  /// storages die and the engine copies.
  void end_gap();
  /// Cuts after something that is observed: operator `op` of the region, or kNone. Returns the most
  /// bytes of the interval.
  int64_t end_work(size_t op);
  /// Storages were set aside since the last cut.
  void refresh_level() { level_ = counter_->now(); }
  /// A gradient is in place. `is_new`: there was none when the step began.
  void set_gradient_aside(const c10::Storage& gradient, bool is_new);
  /// The same for one that processes have summed, of `bytes`, which no earlier one shares.
  void set_sum_aside(int64_t bytes);

 private:
  int64_t note_dead(size_t interval);

  StepTrace& trace_;
  StorageRecorder& storages_;
  const std::vector<RegionRecord>& regions_;
  std::optional<ActivationCounter> counter_;
  StepPhase phase_ = StepPhase::Outside;
  size_t region_ = 0;
  int64_t level_ = 0;
  int64_t gradient_bytes_ = 0;
  bool has_inner_region_ = false;  // since the last cut
};

}  // namespace reprise::planning
