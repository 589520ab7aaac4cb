// Whether a checkpoint is of the run that is to go on from it.
#pragma once

#include "reprise/training/flags.h"

#include <reprise/io/json.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace reprise::app {

/// Throws, naming them, for settings that change what is computed and are not the checkpoint's.
/// Another number of processes may go on, with as many rows a step, cut so that it computes the
/// same: for most objectives into the same micro-batches.
void check_same_run(const std::filesystem::path& checkpoint,
                    const TrainingFlags& flags,
                    const Json& configuration,
                    int64_t world_size);

/// Throws if the checkpoint's run was trained on other data: the same names with other content.
void check_same_data(const std::filesystem::path& checkpoint, const std::string& data_key);

}  // namespace reprise::app
