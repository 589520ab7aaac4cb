// The objective of a training command, with its reference or teacher.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags/flags.h"
#include "reprise/training/setup/open_data.h"
#include "reprise/training/setup/open_model.h"

#include <reprise/train/objective.h>

#include <memory>

namespace reprise::app {

/// Whether the objective compares with the model before training.
bool keeps_reference(const TrainingFlags& flags);

/// Throws for options of the loss that contradict each other or have no effect.
std::unique_ptr<TrainingObjective> make_objective(const TrainingFlags& flags,
                                                  const TrainedModel& trained,
                                                  const TrainingData& data,
                                                  const RunWorld& world,
                                                  ProgressLine& progress);

}  // namespace reprise::app
