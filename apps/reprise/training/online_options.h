// The flags of grpo and ppo as options of the training library.
#pragma once

#include "reprise/training/flags.h"

#include <reprise/train/online.h>

namespace reprise::app {

/// Of flags that complete_online() has seen. What depends on files (training, the tokenizer's
/// stops) is not in it yet.
OnlineOptions online_options(const TrainingFlags& flags);

}  // namespace reprise::app
