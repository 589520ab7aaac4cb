// Whether a run can resume from a checkpoint.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/io/json.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace reprise::app {

/// Throws if settings that change results differ from the checkpoint's, and lists them. The number
/// of processes may change if a step has the same rows and computes the same: for most objectives
/// this means the same micro-batches.
void check_same_run(const std::filesystem::path& checkpoint,
                    const TrainingFlags& flags,
                    const Json& configuration,
                    int64_t world_size);

/// Throws if the content of the data differs from that of the checkpoint's run.
void check_same_data(const std::filesystem::path& checkpoint, const std::string& data_key);

}  // namespace reprise::app
