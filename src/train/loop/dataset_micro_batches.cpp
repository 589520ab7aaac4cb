#include "train/loop/dataset_micro_batches.h"

#include "train/loop/collate_rows.h"
#include "train/loop/non_finite_loss.h"

#include <utility>

namespace reprise {

DatasetMicroBatches::DatasetMicroBatches(const TrainingJob& job,
                                         const CollateOptions& collate,
                                         std::vector<MicroBatchRows> rows)
    : job_(job), collate_(collate), rows_(std::move(rows)) {
  for (const auto& each : rows_) {
    batches_.push_back(collate_rows(*job_.data, each, collate_));
  }
}

double DatasetMicroBatches::total_weight() const {
  double weight = 0;
  for (size_t i = 0; i < batches_.size(); ++i) {
    weight += is_filler(i) ? 0 : job_.objective.weight(batches_[i]);
  }
  return weight;
}

BatchLoss DatasetMicroBatches::loss(size_t index, const StepContext& step) {
  StepContext context = step;
  // A pass that is not measured traces memory, which each process does only when it has to.
  context.allows_collectives = step.meter != nullptr;
  context.is_filler = is_filler(index);
  const auto device = job_.objective.model().device();
  return job_.objective.loss(to_device(batches_[index], device), context);
}

std::string DatasetMicroBatches::describe_non_finite(size_t index) const {
  return describe_non_finite_loss({job_.objective, *job_.data, collate_}, rows_[index].examples);
}

int64_t DatasetMicroBatches::tokens() const {
  int64_t tokens = 0;
  for (size_t i = 0; i < batches_.size(); ++i) {
    tokens += is_filler(i) ? 0 : batches_[i].main.tokens;
  }
  return tokens;
}

}  // namespace reprise
