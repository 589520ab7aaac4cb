// How new adapters begin: init_lora_weights.
#pragma once

#include "model/lora/lora_plan.h"

#include <reprise/model/lora.h>

#include <ATen/core/Generator.h>

namespace reprise {

/// Throws if an adapter of the plan cannot begin in this way, by its rank or by another setting.
void check_initialization(const LoraPlan& plan, const LoraConfig& config);

/// Gives the new branch of a target its first values; on the meta device none.
void initialize(const LoraTarget& target, const LoraInit& init, at::Generator& generator);

}  // namespace reprise
