// The options of a region: as the engine takes them, and as C++ text.
#pragma once

#include "fuzz/programs/program.h"

#include <reprise/options.h>

#include <string>

namespace reprise::fuzz {

CheckpointOptions checkpoint_options(const RegionOptions& options);

/// A braced list such as "{.early_stop = false}".
std::string options_text(const RegionOptions& options);

}  // namespace reprise::fuzz
