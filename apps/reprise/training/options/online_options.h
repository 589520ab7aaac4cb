// The flags of grpo and ppo as options of the training library.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/train/online.h>

namespace reprise::app {

/// Call it after complete_online(). Options that depend on files (`training`, the tokenizer's stop
/// ids) are not set.
OnlineOptions online_options(const TrainingFlags& flags);

}  // namespace reprise::app
