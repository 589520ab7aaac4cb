// The output folder of a run: new, resumed or overwritten.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/dist/world.h>
#include <reprise/io/json.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace reprise::app {

/// The checkpoint to resume from; empty: start from the beginning. Changes nothing. Throws if the
/// folder contains a run and neither --resume_from_checkpoint nor --overwrite_output_dir was given,
/// or if the checkpoint was made with other settings: see check_same_run().
std::filesystem::path check_output(const TrainingFlags& flags,
                                   const Json& configuration,
                                   int64_t world_size);

/// Creates the folder and deletes unfinished files of a killed process and, with
/// --overwrite_output_dir, the old run.
void clear_output(const TrainingFlags& flags);

/// Throws in all processes if one of them does not see what rank 0 writes into the folder. Creates
/// the folder if needed, and leaves nothing else behind.
void check_shared(const std::filesystem::path& output, const World& world);

}  // namespace reprise::app
