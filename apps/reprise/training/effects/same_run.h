// Whether a run can resume from a checkpoint.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/io/json.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reprise::app {

/// Throws if settings that change results differ from the checkpoint's, and lists them. Those of
/// the run's length and learning rate may differ with --allow_changes. The number of processes may
/// change if a step has the same rows and computes the same: for most objectives this means the
/// same micro-batches.
void check_same_run(const std::filesystem::path& checkpoint,
                    const TrainingFlags& flags,
                    const Json& configuration,
                    int64_t world_size);

/// All settings that were changed so far when the run was resumed, oldest first: {"step",
/// "setting", "from", "to"}. The last ones are those between the checkpoint and `configuration`.
Json changes_of_run(const std::filesystem::path& checkpoint, const Json& configuration);

/// "--learning_rate: was 0.001, now 0.0001 (from step 12)", one a line.
std::vector<std::string> change_lines(const Json& changes);

/// Throws if the content of the data differs from that of the checkpoint's run.
void check_same_data(const std::filesystem::path& checkpoint, const std::string& data_key);

}  // namespace reprise::app
