// The micro-batches of an optimizer step over a data set: rows of the batch plan, collated on the
// CPU and moved to the device one at a time.
#pragma once

#include "train/loop/batch_plan.h"
#include "train/loop/micro_batches.h"

#include <reprise/data/batch.h>
#include <reprise/train/trainer.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

class DatasetMicroBatches final : public MicroBatches {
 public:
  /// Reads and collates the rows. `job` and `collate` must outlive this object.
  DatasetMicroBatches(const TrainingJob& job,
                      const CollateOptions& collate,
                      std::vector<MicroBatchRows> rows);

  size_t size() const override { return batches_.size(); }
  double total_weight() const override;
  BatchLoss loss(size_t index, const StepContext& context) override;
  BatchShape shape(size_t index) const override { return shape_of(batches_[index]); }
  std::string describe_non_finite(size_t index) const override;
  int64_t frozen_bytes() const override { return job_.objective.frozen_bytes(); }
  bool is_filler(size_t index) const override { return rows_[index].is_filler; }

  /// Tokens in this process, without fillers.
  int64_t tokens() const;

 private:
  const TrainingJob& job_;
  const CollateOptions& collate_;
  std::vector<MicroBatchRows> rows_;
  std::vector<Batch> batches_;
};

}  // namespace reprise
