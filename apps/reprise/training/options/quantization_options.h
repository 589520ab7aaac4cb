// From flags to how the trained model is quantised.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/model/quantization_config.h>

#include <optional>

namespace reprise::app {

/// Unset: as the folder is.
std::optional<QuantizationConfig> quantization_options(const TrainingFlags& flags);

}  // namespace reprise::app
