// By which evaluation a checkpoint is the best so far.
#pragma once

#include "train/snapshot.h"

#include <reprise/io/json.h>
#include <reprise/train/trainer.h>

namespace reprise {

/// Whether an evaluation is better than all before it by options.best_metric, and if so remembers
/// it in `state`; otherwise counts it as one without a new best. NaN is worse than everything, so
/// never the best. Throws, naming the metrics there are, if that one is not among them.
bool update_best(RunState& state, const Json& evaluation, const TrainerOptions& options);

}  // namespace reprise
