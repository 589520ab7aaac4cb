#include "plan/trace/step_cuts.h"

#include <algorithm>

namespace reprise::planning {

StepCuts::StepCuts(c10::Device device,
                   StepTrace& trace,
                   StorageRecorder& storages,
                   const std::vector<RegionRecord>& regions)
    : trace_(trace), storages_(storages), regions_(regions), counter_(std::in_place, device) {
  trace_.device = counter_->device();
}

bool StepCuts::is_in_region() const {
  return phase_ == StepPhase::Forward || phase_ == StepPhase::Recompute;
}

void StepCuts::begin() {
  counter_->cut();
  level_ = counter_->now();
}

void StepCuts::enter(StepPhase phase, size_t region) {
  phase_ = phase;
  region_ = region;
}

int64_t StepCuts::note_dead(size_t interval) {
  const int64_t bytes = storages_.note_dead(interval);
  for (size_t i = 0; i < regions_.size(); ++i) {
    if (trace_.regions[i].released == kNone && regions_[i].frame.expired()) {
      trace_.regions[i].released = interval;
    }
  }
  return bytes;
}

// What dies in a gap dies at its start, before the engine allocates: autograd releases a node's
// tensors before it sums gradients.
void StepCuts::end_gap() {
  const int64_t start = level_;
  const int64_t peak = counter_->cut();
  level_ = counter_->now();
  const size_t before = trace_.intervals.empty() ? 0 : trace_.intervals.size() - 1;
  const int64_t dead_bytes = note_dead(before);
  // The levels at both ends belong to the neighbours. But an operator of a recompute does not run
  // if its result is kept, and then what the engine has copied before it is there all the same.
  const bool has_copied = phase_ == StepPhase::Recompute && level_ > start;
  if (peak > std::max(start, level_) || has_copied) {
    trace_.intervals.push_back({phase_, region_, kNone, peak, gradient_bytes_});
  }
  // Copies of temporaries are dropped again, so the change may be negative.
  const int64_t copied = level_ - start + dead_bytes;
  if (phase_ == StepPhase::Forward && !has_inner_region_ && copied != 0) {
    trace_.regions[region_].copies.push_back({trace_.intervals.size(), copied});
  }
  has_inner_region_ = false;
}

int64_t StepCuts::end_work(size_t op) {
  const int64_t peak = counter_->cut();
  level_ = counter_->now();
  note_dead(trace_.intervals.size());
  trace_.intervals.push_back({phase_, region_, op, peak, gradient_bytes_});
  return peak;
}

void StepCuts::set_gradient_aside(const c10::Storage& gradient, bool is_new) {
  const int64_t before = counter_->now();
  counter_->set_aside(gradient);
  level_ = counter_->now();
  gradient_bytes_ += is_new ? before - level_ : 0;
}

void StepCuts::set_sum_aside(int64_t bytes) {
  counter_->set_aside(bytes);
  level_ = counter_->now();
  gradient_bytes_ += bytes;
}

}  // namespace reprise::planning
