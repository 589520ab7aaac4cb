// What can be checked in no time, before rows are tokenised and weights are read: a run that is
// going to fail for a wrong name must fail at once.
#pragma once

#include "reprise/training/flags/flags.h"

#include <filesystem>

namespace reprise::app {

/// Throws, naming the flag, if a file or model folder that the flags name is missing, cannot be
/// read or is of another kind; and for rewards that cannot be made.
void check_inputs(const TrainingFlags& flags);

/// Throws if the folder cannot be created or written to. Leaves nothing behind.
void check_writable(const std::filesystem::path& output);

}  // namespace reprise::app
