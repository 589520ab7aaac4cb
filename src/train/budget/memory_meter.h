// Measures the peak bytes of a training step, by class.
#pragma once

#include "memory/phase_bytes.h"

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

namespace reprise {

/// The bytes alive at the step's peak. They add up to it.
struct MemoryClasses {
  int64_t parameters = 0;   ///< of the trained model and of frozen models
  int64_t gradients = 0;    ///< those in place at that moment
  int64_t optimizer = 0;    ///< its state
  int64_t activations = 0;  ///< what forward kept and backward has not freed yet
  int64_t recompute = 0;    ///< working set of backward: recomputed tensors and their gradients
  int64_t logits = 0;       ///< head and loss, on top of the activations
  int64_t other = 0;        ///< batches, working memory of forward and of the update

  REPRISE_API int64_t total() const;
  REPRISE_API Json to_json() const;
};

/// Follows the micro-batches of one optimizer step. The caller says when each phase begins or ends.
class REPRISE_API MemoryMeter {
 public:
  /// Bytes that are allocated all the time.
  struct Fixed {
    int64_t parameters = 0;
    int64_t optimizer = 0;
  };

  explicit MemoryMeter(c10::Device device);

  void begin_step(const Fixed& fixed);  ///< before there are gradients
  void begin_forward();
  /// A parameter's gradient is in place. May be called by another thread during backward.
  void note_gradient(int64_t bytes);
  void end_forward();  ///< hidden states are computed, the head comes next
  void end_loss();     ///< before backward
  void end_backward();
  void end_step();  ///< after the optimizer's update, before gradients are freed
  /// Call if a phase failed: the bytes that it reached count for its class.
  void give_up();

  int64_t activation_bytes() const { return activations_; }  ///< maximum over the micro-batches
  /// What the forward of the latest micro-batch kept.
  int64_t latest_activation_bytes() const { return forward_end_ - before_; }
  /// What `activation_memory_budget` limits: Note [What a budget bounds]. Maximum over the
  /// micro-batches.
  int64_t activation_peak_bytes() const { return activation_peak_; }
  int64_t peak_bytes() const { return peak_; }
  const MemoryClasses& classes() const { return classes_; }

 private:
  enum class Phase : uint8_t { Between, Forward, Loss, Backward };

  int64_t finish_phase() const;
  void note_peak(int64_t peak, const MemoryClasses& parts);
  void end_micro_batch(int64_t new_gradients);

  c10::Device device_;
  Fixed fixed_;
  Phase phase_ = Phase::Between;
  std::unique_ptr<memory::PhaseBytes> bytes_;  // of the micro-batch
  int64_t base_ = 0;                           // bytes in use when the step began
  int64_t before_ = 0;       // live when forward began: base_ and earlier gradients
  int64_t forward_end_ = 0;  // when forward ended
  int64_t after_ = 0;        // when the latest micro-batch had ended: base_ and gradients
  int64_t activations_ = 0;
  int64_t activation_peak_ = 0;
  int64_t peak_ = 0;
  MemoryClasses classes_;  // at the peak so far
};

}  // namespace reprise
