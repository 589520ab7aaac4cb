// The adapters that a run trains: new ones, or those of --adapter.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/model/lora.h>
#include <reprise/model/model.h>

#include <optional>

namespace reprise::app {

/// Adds the adapters that the flags ask for, and returns their settings; std::nullopt: all weights
/// are trained. `keeps_reference`: also keep a copy of the adapter that is trained further.
std::optional<LoraConfig> add_adapters(Model& model,
                                       const TrainingFlags& flags,
                                       bool keeps_reference);

}  // namespace reprise::app
