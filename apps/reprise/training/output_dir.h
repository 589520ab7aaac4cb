// The folder of a run: new, gone on with, or begun again.
#pragma once

#include "reprise/training/flags.h"

#include <reprise/io/json.h>

#include <filesystem>
#include <string>

namespace reprise::app {

/// The checkpoint to go on from; empty: from the start. Changes nothing. Throws if the folder has
/// another run in it and neither --resume_from_checkpoint nor
/// --overwrite_output_dir was given, or if the checkpoint was made with other settings.
std::filesystem::path check_output(const TrainingFlags& flags, const Json& configuration);

/// Throws if the checkpoint's run was trained on other data: the same names with other content.
void check_same_data(const std::filesystem::path& checkpoint, const std::string& data_key);

/// Makes the folder ready for the run: with --overwrite_output_dir without the old run, and without
/// what a killed process left half-written.
void clear_output(const TrainingFlags& flags);

}  // namespace reprise::app
