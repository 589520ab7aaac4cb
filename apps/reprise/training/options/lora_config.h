// The LoRA flags as the configuration of new adapters.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/model/lora.h>

#include <string>
#include <vector>

namespace reprise::app {

/// `base_model`: the folder of the model that gets the adapters.
LoraConfig lora_config(const TrainingFlags& flags, const std::string& base_model);

/// Flags whose values are lists of numbers, which throw for other values, naming the flag.
LoraConfig::Patterns<int64_t> rank_pattern(const std::vector<std::string>& values);
LoraConfig::Patterns<double> alpha_pattern(const std::vector<std::string>& values);
std::vector<int64_t> layers_to_transform(const std::vector<std::string>& values);

/// What such an adapter is called: LoRA, DoRA, PiSSA or OLoRA.
std::string adapter_kind(const LoraConfig& config);

}  // namespace reprise::app
