// The loss and metrics of a data set, without training on it.
#pragma once

#include "train/batch_plan.h"

#include <reprise/data/batch.h>
#include <reprise/data/dataset.h>
#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/train/objective.h>
#include <reprise/train/trainer.h>

#include <cstdint>
#include <vector>

namespace reprise {

struct EvaluationJob {
  TrainingObjective& objective;
  const Dataset& data;
  const CollateOptions& collate;
  int64_t batch_size = 8;
};

/// "eval_loss" and "eval_<metric>", with batches dealt to the processes of the world. The loss
/// weighs batches by evaluation_weight(), so whatever the batches are, for sft it is the mean over
/// all tokens and for dpo over all rows. Figures that are not a number are named in "eval_note".
/// The model is left in eval mode. Throws for memory that runs out, saying which setting would
/// help.
REPRISE_API Json evaluate(const EvaluationJob& job,
                          const TrainerOptions& options,
                          const World& world);

/// Tokens of a padded row; of rows that were joined, the mean.
int64_t tokens_of_row(const Batch& batch);

/// The examples of these indices as a batch.
REPRISE_API Batch collate_examples(const Dataset& data,
                                   const std::vector<int64_t>& indices,
                                   const CollateOptions& options);
/// The same of a micro-batch, whose mismatched rows may be of other processes' examples.
Batch collate_rows(const Dataset& data, const MicroBatchRows& rows, const CollateOptions& options);

}  // namespace reprise
