// The micro-batches of one optimizer step in this process, as the learner sees them.
//
// Offline training (dataset_micro_batches.h), online training (online/online_micro_batches.h) and
// the trial steps that choose a batch size (budget/auto_batch.cpp) each implement this interface.
#pragma once

#include "train/budget/batch_shape.h"

#include <reprise/train/objective.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace reprise {

class MicroBatches {
 public:
  virtual ~MicroBatches() = default;

  virtual size_t size() const = 0;

  /// Sum of the weights in this process; the learner adds up those of all processes
  /// (StepContext::total_weight).
  virtual double total_weight() const { return 1; }

  /// Forward pass of one micro-batch; the learner calls backward(). Called once for each index, in
  /// order. Under a memory budget it may be called a few more times before that, to trace memory.
  virtual BatchLoss loss(size_t index, const StepContext& context) = 0;

  /// The sizes that determine its memory.
  virtual BatchShape shape(size_t index) const = 0;

  /// The error message for a loss that is NaN or infinite.
  virtual std::string describe_non_finite(size_t index) const = 0;

  /// Bytes of parameters on the device besides the trained model's: a reference, a teacher.
  virtual int64_t frozen_bytes() const = 0;

  /// A filler takes part in collectives but does not count: other processes have one micro-batch
  /// more than this one.
  virtual bool is_filler(size_t /*index*/) const { return false; }
};

}  // namespace reprise
