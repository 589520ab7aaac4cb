// The folder of a run: new, gone on with, or begun again.
#pragma once

#include "reprise/training/flags.h"

#include <reprise/dist/world.h>
#include <reprise/io/json.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace reprise::app {

/// The checkpoint to go on from; empty: from the start. Changes nothing. Throws if the folder has
/// another run in it and neither --resume_from_checkpoint nor
/// --overwrite_output_dir was given, or if the checkpoint was made with other settings: see
/// check_same_run().
std::filesystem::path check_output(const TrainingFlags& flags,
                                   const Json& configuration,
                                   int64_t world_size);

/// Makes the folder ready for the run: with --overwrite_output_dir without the old run, and without
/// what a killed process left half-written.
void clear_output(const TrainingFlags& flags);

/// Throws, in all processes, if one of them does not see what the first writes into the folder,
/// which is made if it is not there. Leaves nothing else behind.
void check_shared(const std::filesystem::path& output, const World& world);

}  // namespace reprise::app
