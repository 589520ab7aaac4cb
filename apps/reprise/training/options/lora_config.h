// The LoRA flags as the configuration of new adapters.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/model/lora.h>

#include <string>

namespace reprise::app {

/// `base_model`: the folder of the model that gets the adapters.
LoraConfig lora_config(const TrainingFlags& flags, const std::string& base_model);

}  // namespace reprise::app
