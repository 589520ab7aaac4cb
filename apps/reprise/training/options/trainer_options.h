// The flags of the training loop as options of the training library.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/dist/world.h>
#include <reprise/io/json.h>
#include <reprise/optim/optimizer.h>
#include <reprise/train/trainer.h>

#include <string>

namespace reprise::app {

OptimizerOptions optimizer_options(const TrainingFlags& flags);

/// Everything except the collate options. `data_key` identifies the training data: a run resumes
/// only with the same data and the same number of rows per step.
TrainerOptions trainer_options(const TrainingFlags& flags,
                               const Json& configuration,
                               const std::string& data_key,
                               const World& world);

}  // namespace reprise::app
