// `reprise grpo` and `reprise ppo`.
#pragma once

#include "reprise/training/flags/flags.h"
#include "reprise/training/run/run_world.h"

#include <reprise/io/json.h>

namespace reprise::app {

/// Trains and saves the model. `configuration`: resolved_configuration(flags).
void run_online(const TrainingFlags& flags, const Json& configuration, const RunWorld& world);

}  // namespace reprise::app
