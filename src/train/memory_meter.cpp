#include <reprise/train/memory_meter.h>

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

// The peak since the last phase ended; the next phase begins.
int64_t MemoryMeter::finish_phase() {
  const int64_t phase_peak = reprise::peak_bytes(device_);
  peak_ = std::max(peak_, phase_peak);
  reset_peak_bytes(device_);
  return phase_peak;
}

void MemoryMeter::begin_step(const Fixed& fixed) {
  fixed_ = fixed;
  activations_ = logits_ = recompute_ = 0;
  peak_ = live_bytes(device_);
  reset_peak_bytes(device_);
}

void MemoryMeter::begin_forward() {
  finish_phase();
  before_ = live_bytes(device_);
  phase_ = Phase::Forward;
}

void MemoryMeter::end_forward() {
  if (phase_ != Phase::Forward) {
    return;  // an objective may run the model twice; what is kept by then is what the first kept
  }
  finish_phase();
  phase_ = Phase::Loss;
  forward_end_ = live_bytes(device_);
  activations_ = std::max(activations_, forward_end_ - before_);
}

void MemoryMeter::end_loss() {
  end_forward();
  const int64_t phase_peak = finish_phase();
  loss_end_ = live_bytes(device_);
  logits_ = std::max(logits_, phase_peak - forward_end_);
  phase_ = Phase::Backward;
}

void MemoryMeter::end_backward() {
  const int64_t phase_peak = finish_phase();
  // What is alive now and was not before the micro-batch are gradients: a class of their own.
  const int64_t new_gradients = std::max<int64_t>(live_bytes(device_) - before_, 0);
  recompute_ = std::max(recompute_, phase_peak - loss_end_ - new_gradients);
  phase_ = Phase::Between;
}

void MemoryMeter::end_step() {
  finish_phase();
}

void MemoryMeter::give_up() {
  const int64_t reached = finish_phase();
  switch (phase_) {
    case Phase::Forward:
      activations_ = std::max(activations_, reached - before_);
      break;
    case Phase::Loss:
      logits_ = std::max(logits_, reached - forward_end_);
      break;
    case Phase::Backward:
      recompute_ = std::max(recompute_, reached - loss_end_);
      break;
    case Phase::Between:
      break;
  }
}

MemoryClasses MemoryMeter::classes() const {
  MemoryClasses classes;
  // Phases peak at different moments, and not all gradients need be there at the peak: what each
  // had is shown as far as the peak has room for it.
  int64_t left = peak_;
  for (auto [to, bytes] : {std::pair{&classes.parameters, fixed_.parameters},
                           {&classes.gradients, fixed_.gradients},
                           {&classes.optimizer, fixed_.optimizer},
                           {&classes.activations, activations_},
                           {&classes.recompute, recompute_},
                           {&classes.logits, logits_}}) {
    *to = std::clamp<int64_t>(bytes, 0, left);
    left -= *to;
  }
  classes.other = left;
  return classes;
}

}  // namespace reprise
