// The loss and metrics of a data set, without training on it.
#pragma once

#include <reprise/data/batch.h>
#include <reprise/data/dataset.h>
#include <reprise/io/json.h>
#include <reprise/train/objective.h>
#include <reprise/train/trainer.h>
#include <reprise/train/world.h>

#include <cstdint>
#include <vector>

namespace reprise {

struct EvaluationJob {
  TrainingObjective& objective;
  const Dataset& data;
  const CollateOptions& collate;
  int64_t batch_size = 8;
};

/// "eval_loss" and "eval_<metric>". The loss weighs batches as training weighs micro-batches, so
/// for sft it is the mean over all tokens. The model is left in eval mode.
Json evaluate(const EvaluationJob& job, const TrainerOptions& options, const World& world);

/// The examples of these indices as a batch.
Batch collate_examples(const Dataset& data,
                       const std::vector<int64_t>& indices,
                       const CollateOptions& options);

}  // namespace reprise
