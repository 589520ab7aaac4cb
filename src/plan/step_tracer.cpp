// Cuts, regions and writes of a traced step. How it runs, and nodes of backward: traced_step.cpp.
// Operators: traced_ops.cpp. What is made of it: trace_summary.cpp.
#include "plan/step_tracer.h"

#include "checkpoint/frame.h"
#include "checkpoint/thread_state.h"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <utility>

namespace reprise::planning {
namespace {

bool is_in_backward() {
  return torch::autograd::get_current_graph_task_id() >= 0;
}

}  // namespace

int64_t StepTracer::bury_dead(size_t last_interval) {
  int64_t bytes = 0;
  ledger_.collect_dead([&](size_t number) {
    Role& role = roles_[number];
    bytes += role.bytes;
    role.died = last_interval;
    if (role.storage != kNone) {
      auto& storage = trace_.storages[role.storage];
      // Recomputed twice in one step, the later one counts.
      (role.is_remade ? storage.used_up : storage.died) = last_interval;
    }
  });
  for (size_t i = 0; i < watches_.size(); ++i) {
    if (trace_.regions[i].released == kNone && watches_[i].frame.expired()) {
      trace_.regions[i].released = last_interval;
    }
  }
  return bytes;
}

// What dies in a gap dies at its begin, before the engine allocates: autograd lets go of a node's
// tensors before it sums gradients.
void StepTracer::end_gap() {
  const int64_t start = level_;
  const int64_t peak = counter_.cut();
  level_ = counter_.now();
  const size_t before = trace_.intervals.empty() ? 0 : trace_.intervals.size() - 1;
  const int64_t dead_bytes = bury_dead(before);
  if (phase_ == StepPhase::Forward && !has_inner_region_) {
    trace_.regions[region_].log_bytes += std::max<int64_t>(0, level_ - start + dead_bytes);
  }
  has_inner_region_ = false;
  // The levels at both ends belong to the neighbours.
  if (peak > std::max(start, level_)) {
    trace_.intervals.push_back({phase_, region_, kNone, peak, gradient_bytes_});
  }
}

int64_t StepTracer::end_work(size_t op) {
  const int64_t peak = counter_.cut();
  level_ = counter_.now();
  bury_dead(trace_.intervals.size());
  trace_.intervals.push_back({phase_, region_, op, peak, gradient_bytes_});
  return peak;
}

bool StepTracer::is_in_region() const {
  return phase_ == StepPhase::Forward || phase_ == StepPhase::Recompute;
}

detail::OpObserver* StepTracer::forward_begins(const std::shared_ptr<detail::Frame>& frame,
                                               const CheckpointOptions& options,
                                               const std::vector<at::Tensor>& inputs,
                                               detail::OpObserver* recorder) {
  const std::scoped_lock lock(mutex_);
  if (is_in_region() || is_in_backward() || std::this_thread::get_id() != thread_) {
    has_inner_region_ = true;
    return recorder;
  }
  end_gap();
  Watch watch;
  watch.frame = frame;
  watch.id = frame.get();
  watch.has_autocast = detail::ThreadState().has_autocast();
  note_inputs(watch, inputs);
  for (const Input& input : watch.inputs) {
    if (const size_t storage = roles_[input.number].storage; storage != kNone) {
      trace_.storages[storage].last_input_of = trace_.regions.size();
    }
  }
  TracedRegion region;
  region.name = options.name;
  region.entry_bytes = level_;
  region.joinable = std::exchange(joinable_, 0);
  phase_ = StepPhase::Forward;
  region_ = trace_.regions.size();
  watch.begun = clock_.mark();
  trace_.regions.push_back(std::move(region));
  watches_.push_back(std::move(watch));
  return this;
}

void StepTracer::packed(const detail::Frame& frame, const at::Tensor& tensor) {
  const std::scoped_lock lock(mutex_);
  if (phase_ != StepPhase::Forward || watches_[region_].id != &frame) {
    return;
  }
  const auto number = ledger_.find(tensor);
  if (!number) {
    return;
  }
  for (auto& input : watches_[region_].inputs) {
    input.traced.is_saved = input.traced.is_saved || input.number == *number;
  }
  if (roles_[*number].storage == kNone) {
    return;
  }
  auto& storage = trace_.storages[roles_[*number].storage];
  // What an earlier region made is an input of this one, and held as such.
  if (storage.region == region_) {
    storage.is_saved = true;
    trace_.regions[region_].ops[storage.op].is_saved = true;
  }
}

void StepTracer::forward_ended(const detail::Frame& frame) {
  const std::scoped_lock lock(mutex_);
  if (phase_ != StepPhase::Forward || watches_[region_].id != &frame) {
    return;
  }
  end_gap();
  watches_[region_].ended = clock_.mark();
  auto& region = trace_.regions[region_];
  region.forward_end = trace_.intervals.size() - 1;
  for (const auto& storage : trace_.storages) {
    if (storage.region == region_) {
      const bool is_output = storage.died == kNone;
      region.output_bytes += is_output ? storage.bytes : 0;
      region.saved_bytes += storage.is_saved && !is_output ? storage.bytes : 0;
    }
  }
  phase_ = StepPhase::Outside;
  region_ = trace_.regions.size();
  trace_.head_bytes = level_;
}

detail::OpObserver* StepTracer::recompute_begins(const detail::Frame& frame,
                                                 detail::OpObserver* replayer) {
  const std::scoped_lock lock(mutex_);
  const auto watch = std::find_if(
      watches_.begin(), watches_.end(), [&](const Watch& known) { return known.id == &frame; });
  if (watch == watches_.end() || is_in_region()) {
    return replayer;
  }
  end_work(kNone);
  const size_t now = clock_.mark();
  if (phase_ == StepPhase::Backward) {
    watches_[region_].backward_ended = now;
  }
  phase_ = StepPhase::Recompute;
  region_ = static_cast<size_t>(watch - watches_.begin());
  watch->recompute_begun = now;
  trace_.regions[region_].recompute_begun = trace_.intervals.size();
  trace_.regions[region_].recompute_entry_bytes = level_;
  trace_.regions[region_].is_recomputed = true;
  watch->calls.clear();
  return this;
}

void StepTracer::recompute_ended(const detail::Frame& frame) {
  const std::scoped_lock lock(mutex_);
  if (phase_ != StepPhase::Recompute || watches_[region_].id != &frame) {
    return;
  }
  end_gap();
  watches_[region_].recompute_ended = clock_.mark();
  phase_ = StepPhase::Backward;
}

void StepTracer::before_write(const at::Tensor& target) {
  // Gradients that backward sums in place are the step's own.
  if (is_in_backward() || !target.has_storage()) {
    return;
  }
  const std::scoped_lock lock(mutex_);
  if (!ledger_.find(target)) {
    end_gap();
    state_.before_write(target.storage());
    level_ = counter_.now();
  }
}

}  // namespace reprise::planning
