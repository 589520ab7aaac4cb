// The reference that dpo, kto, grpo and ppo hold a policy near.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags.h"
#include "reprise/training/open_model.h"

#include <reprise/train/reference.h>

namespace reprise::app {

/// With LoRA the model without its new adapters, else --ref_model or a second copy of the model.
Reference open_reference(const TrainingFlags& flags,
                         const TrainedModel& trained,
                         const RunWorld& world,
                         ProgressLine& progress);

}  // namespace reprise::app
