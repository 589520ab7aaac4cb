// Tracks the best evaluation so far.
#pragma once

#include "train/loop/run_checkpoint.h"

#include <reprise/io/json.h>
#include <reprise/train/trainer.h>

namespace reprise {

/// Returns whether an evaluation is better than all before it by options.best_metric, and updates
/// `state`: the new best, or the count of evaluations without one. NaN is never the best. Throws,
/// with a list of the metrics, if best_metric is not one of them.
bool update_best(RunState& state, const Json& evaluation, const TrainerOptions& options);

}  // namespace reprise
