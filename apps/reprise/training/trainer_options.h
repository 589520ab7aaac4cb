// The flags of the training loop as options of the training library.
#pragma once

#include "reprise/training/flags.h"

#include <reprise/dist/world.h>
#include <reprise/io/json.h>
#include <reprise/train/trainer.h>

#include <string>

namespace reprise::app {

/// All but how batches are put together. `data_key` names the data that is trained on: a run only
/// goes on with the same, and with as many rows a step.
TrainerOptions trainer_options(const TrainingFlags& flags,
                               const Json& configuration,
                               const std::string& data_key,
                               const World& world);

}  // namespace reprise::app
