// Where the bytes of a training step are, by class.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <c10/core/Device.h>

#include <cstdint>

namespace reprise {

/// Bytes at the step's peak. They add up to the peak.
struct MemoryClasses {
  int64_t parameters = 0;  ///< of the trained model and of frozen ones beside it
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t activations = 0;  ///< what forward keeps for backward
  int64_t recompute = 0;    ///< working set of backward: what is computed again, and its gradients
  int64_t logits = 0;       ///< what the head and the loss need on top of the activations
  int64_t other = 0;

  REPRISE_API int64_t total() const;
  REPRISE_API Json to_json() const;
};

/// Follows the micro-batches of one optimizer step. Tells the phases apart by being told when each
/// begins.
class REPRISE_API MemoryMeter {
 public:
  struct Fixed {
    int64_t parameters = 0;
    int64_t gradients = 0;
    int64_t optimizer = 0;
  };

  explicit MemoryMeter(c10::Device device);

  void begin_step(const Fixed& fixed);
  void begin_forward();
  void end_forward();  ///< hidden states are there, the head comes next
  void end_loss();     ///< backward comes next
  void end_backward();
  void end_step();  ///< after the optimizer
  /// The phase that is on did not end: what it had reached counts for its class.
  void give_up();

  int64_t activation_bytes() const { return activations_; }  ///< the most of the micro-batches
  int64_t peak_bytes() const { return peak_; }
  MemoryClasses classes() const;

 private:
  int64_t finish_phase();

  c10::Device device_;
  Fixed fixed_;
  int64_t before_ = 0;       // live when forward began
  int64_t forward_end_ = 0;  // live when forward ended
  int64_t loss_end_ = 0;
  int64_t activations_ = 0, logits_ = 0, recompute_ = 0, peak_ = 0;
  enum class Phase : uint8_t { Between, Forward, Loss, Backward };
  Phase phase_ = Phase::Between;
};

}  // namespace reprise
