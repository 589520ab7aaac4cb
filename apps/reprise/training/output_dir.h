// The folder of a run: new, gone on with, or begun again.
#pragma once

#include "reprise/training/flags.h"

#include <reprise/io/json.h>

#include <filesystem>

namespace reprise::app {

/// Makes the output folder ready and returns the checkpoint to go on from; empty: from the start.
/// Throws if the folder has another run in it and neither --resume_from_checkpoint nor
/// --overwrite_output_dir was given, or if the checkpoint was made with other settings.
std::filesystem::path prepare_output(const TrainingFlags& flags, const Json& configuration);

}  // namespace reprise::app
