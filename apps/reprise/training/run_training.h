// A training command from flags to the saved model.
#pragma once

#include "reprise/training/flags.h"
#include "reprise/training/run_world.h"

#include <reprise/io/json.h>

namespace reprise::app {

/// Runs it. `configuration` is the resolved one, which is saved and compared on resume.
void run_training(const TrainingFlags& flags, const Json& configuration, const RunWorld& world);

}  // namespace reprise::app
