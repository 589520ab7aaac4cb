#include "train/budget/memory_meter.h"

#include <reprise/memory.h>

#include <algorithm>

namespace reprise {

int64_t MemoryClasses::total() const {
  return parameters + gradients + optimizer + activations + recompute + logits + other;
}

Json MemoryClasses::to_json() const {
  return {{"parameters", parameters},
          {"gradients", gradients},
          {"optimizer", optimizer},
          {"activations", activations},
          {"recompute", recompute},
          {"logits", logits},
          {"other", other}};
}

MemoryMeter::MemoryMeter(c10::Device device) : device_(device) {}

// Returns the peak since the last phase ended, and begins the next phase.
int64_t MemoryMeter::finish_phase() const {
  const int64_t phase_peak = reprise::peak_bytes(device_);
  reset_peak_bytes(device_);
  return phase_peak;
}

// What was there before the step is parameters, optimizer state and, for the rest, `other`; the
// first two may be on another device. `parts` are bytes that were measured on top of it.
void MemoryMeter::note_peak(int64_t peak, const MemoryClasses& parts) {
  if (peak < peak_) {
    return;
  }
  peak_ = peak;
  classes_ = parts;
  classes_.parameters = std::min(fixed_.parameters, base_);
  classes_.optimizer += std::min(fixed_.optimizer, base_ - classes_.parameters);
  classes_.other = 0;
  classes_.other = peak - classes_.total();
}

void MemoryMeter::begin_step(const Fixed& fixed) {
  fixed_ = fixed;
  phase_ = Phase::Between;
  bytes_.reset();
  activations_ = 0;
  activation_peak_ = 0;
  peak_ = 0;
  base_ = live_bytes(device_);
  before_ = forward_end_ = after_ = base_;
  reset_peak_bytes(device_);
  note_peak(base_, {});
}

void MemoryMeter::begin_forward() {
  before_ = live_bytes(device_);
  forward_end_ = before_;
  note_peak(finish_phase(), {.gradients = std::min(after_, before_) - base_});
  phase_ = Phase::Forward;
  bytes_ = std::make_unique<memory::PhaseBytes>(device_);
}

void MemoryMeter::note_gradient(int64_t bytes) {
  if (bytes_ != nullptr) {
    bytes_->set_aside(bytes);
  }
}

void MemoryMeter::end_forward() {
  if (phase_ != Phase::Forward) {
    return;  // an objective may run the model twice; the first forward counts
  }
  forward_end_ = live_bytes(device_);
  activations_ = std::max(activations_, forward_end_ - before_);
  phase_ = Phase::Loss;
  bytes_->begin(memory::Phase::Loss);
}

void MemoryMeter::end_loss() {
  end_forward();
  phase_ = Phase::Backward;
  bytes_->begin(memory::Phase::Backward);
}

void MemoryMeter::end_backward() {
  after_ = live_bytes(device_);
  // Bytes that are alive now and were not before the micro-batch are gradients.
  end_micro_batch(std::max<int64_t>(after_ - before_, 0));
}

// Note [A peak by class]
// ~~~~~~~~~~~~~~~~~~~~~~
// PhaseBytes knows, for the moment of the peak, what forward and loss had allocated and was still
// there, and which gradients were in place. In backward the rest is its working set. Gradients that
// no hook reports (shards of a parameter) count as far as the working set has room for them.
void MemoryMeter::end_micro_batch(int64_t new_gradients) {
  const auto at = bytes_->peak();
  MemoryClasses parts{.gradients = before_ - base_};
  if (at.phase == memory::Phase::Forward) {
    parts.activations = std::min(at.forward, std::max<int64_t>(forward_end_ - before_, 0));
  } else {
    const int64_t rest = std::max<int64_t>(at.live - before_ - at.forward - at.loss, 0);
    const int64_t in_place = at.aside > 0 ? at.aside : new_gradients;
    const int64_t gradients = at.phase == memory::Phase::Backward ? std::min(in_place, rest) : 0;
    parts.activations = at.forward;
    parts.logits = at.loss;
    parts.gradients += gradients;
    parts.recompute = at.phase == memory::Phase::Backward ? rest - gradients : 0;
  }
  note_peak(std::max(at.live, finish_phase()), parts);
  activation_peak_ = std::max(activation_peak_, bytes_->most_activations());
  bytes_.reset();
  phase_ = Phase::Between;
}

void MemoryMeter::end_step() {
  // State that the first update has made stays; the rest was its working memory.
  const int64_t made = std::max<int64_t>(live_bytes(device_) - after_, 0);
  note_peak(finish_phase(), {.gradients = after_ - base_, .optimizer = made});
}

void MemoryMeter::give_up() {
  if (phase_ == Phase::Forward) {
    forward_end_ = bytes_->peak().live;
    activations_ = std::max(activations_, forward_end_ - before_);
  }
  if (phase_ != Phase::Between) {
    end_micro_batch(0);
  }
}

}  // namespace reprise
