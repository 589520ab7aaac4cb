// The learning rate schedule that the flags ask for.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/optim/schedule.h>

namespace reprise::app {

/// The schedule without its warmup, which is warmup_of().
ScheduleOptions schedule_options(const TrainingFlags& flags);

/// Warmup as TrainerOptions takes it: a number of steps from 1 on, below 1 a fraction of all steps.
double warmup_of(const TrainingFlags& flags);

}  // namespace reprise::app
