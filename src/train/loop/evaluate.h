// Evaluation: the loss and metrics of a data set, without training on it.
#pragma once

#include <reprise/data/batch.h>
#include <reprise/data/dataset.h>
#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/train/objective.h>
#include <reprise/train/trainer.h>

#include <cstdint>

namespace reprise {

struct EvaluationJob {
  TrainingObjective& objective;
  const Dataset& data;
  const CollateOptions& collate;
  int64_t batch_size = 8;
};

/// Returns "eval_loss" and "eval_<metric>". The processes of the world share the batches. The loss
/// weights batches by evaluation_weight(), so it does not depend on their size: for sft it is the
/// mean over all tokens, for dpo over all rows. Metrics that are NaN are named in "eval_note".
/// Leaves the model in eval mode. If memory runs out, the error says which setting would help.
REPRISE_API Json evaluate(const EvaluationJob& job,
                          const TrainerOptions& options,
                          const World& world);

}  // namespace reprise
