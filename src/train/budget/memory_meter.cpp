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

// If this is the highest peak so far, divides it into classes. Bytes that no part accounts for are
// `other`; parts that were not all alive at once are cut to fit.
void MemoryMeter::note_peak(int64_t peak, const MemoryClasses& parts) {
  if (peak < peak_) {
    return;
  }
  peak_ = peak;
  int64_t left = peak;
  const auto share = [&](int64_t bytes) {
    const int64_t taken = std::clamp<int64_t>(bytes, 0, left);
    left -= taken;
    return taken;
  };
  classes_ = {};
  classes_.parameters = share(fixed_.parameters);
  classes_.optimizer = share(fixed_.optimizer);
  classes_.gradients = share(parts.gradients);
  classes_.activations = share(parts.activations);
  classes_.logits = share(parts.logits);
  classes_.recompute = share(parts.recompute);
  classes_.other = left;
}

void MemoryMeter::begin_step(const Fixed& fixed) {
  fixed_ = fixed;
  phase_ = Phase::Between;
  activations_ = 0;
  peak_ = 0;
  base_ = live_bytes(device_);
  reset_peak_bytes(device_);
  note_peak(base_, {});
}

void MemoryMeter::begin_forward() {
  before_ = live_bytes(device_);
  note_peak(finish_phase(), {.gradients = before_ - base_});
  phase_ = Phase::Forward;
}

void MemoryMeter::end_forward() {
  if (phase_ != Phase::Forward) {
    return;  // an objective may run the model twice; the first forward counts
  }
  forward_end_ = live_bytes(device_);
  activations_ = std::max(activations_, forward_end_ - before_);
  note_peak(finish_phase(), {.gradients = before_ - base_, .activations = forward_end_ - before_});
  phase_ = Phase::Loss;
}

void MemoryMeter::end_loss() {
  end_forward();
  loss_end_ = live_bytes(device_);
  const int64_t reached = finish_phase();
  note_peak(reached,
            {.gradients = before_ - base_,
             .activations = forward_end_ - before_,
             .logits = reached - forward_end_});
  phase_ = Phase::Backward;
}

void MemoryMeter::end_backward() {
  const int64_t after = live_bytes(device_);
  const int64_t reached = finish_phase();
  // Bytes that are alive now and were not before the micro-batch are gradients.
  const int64_t new_gradients = std::max<int64_t>(after - before_, 0);
  note_peak(reached,
            {.gradients = before_ - base_ + new_gradients,
             .activations = forward_end_ - before_,
             .recompute = reached - loss_end_ - new_gradients,
             .logits = loss_end_ - forward_end_});
  phase_ = Phase::Between;
}

void MemoryMeter::end_step() {
  note_peak(finish_phase(), {.gradients = live_bytes(device_) - base_});
}

void MemoryMeter::give_up() {
  const int64_t reached = finish_phase();
  MemoryClasses parts{.gradients = before_ - base_};
  if (phase_ == Phase::Forward) {
    parts.activations = reached - before_;
    activations_ = std::max(activations_, parts.activations);
  } else if (phase_ != Phase::Between) {
    parts.activations = forward_end_ - before_;
    (phase_ == Phase::Loss ? parts.logits : parts.recompute) = reached - forward_end_;
  }
  note_peak(reached, parts);
}

}  // namespace reprise
