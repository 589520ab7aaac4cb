// The options of a region: as the engine takes them, and as C++ text.
#pragma once

#include "fuzz/programs/program.h"

#include <reprise/options.h>

#include <string>
#include <vector>

namespace reprise::fuzz {

CheckpointOptions checkpoint_options(const RegionOptions& options,
                                     const std::vector<at::Generator>& generators);

/// A braced list such as "{.early_stop = false}".
std::string options_text(const RegionOptions& options, int generators);

}  // namespace reprise::fuzz
