// The reference model of dpo, kto, grpo and ppo.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags/flags.h"
#include "reprise/training/setup/open_model.h"

#include <reprise/train/reference.h>

namespace reprise::app {

/// With LoRA the model without its new adapters, otherwise --ref_model or a second copy of the
/// model.
Reference open_reference(const TrainingFlags& flags,
                         const TrainedModel& trained,
                         const RunWorld& world,
                         ProgressLine& progress);

}  // namespace reprise::app
