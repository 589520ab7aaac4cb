// The checkpoint-N folders in the output folder of a run: finding, removing and preparing them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace reprise {

/// The file that makes a folder a checkpoint.
inline constexpr const char* kTrainerStateFile = "trainer_state.json";

/// output/checkpoint-<step>.
std::filesystem::path checkpoint_folder(const std::filesystem::path& output, int64_t step);

/// The number in the name checkpoint-<number>; std::nullopt for other names.
std::optional<int64_t> step_in_name(const std::filesystem::path& folder);

/// Removes partial files of killed runs, and all checkpoints except the newest `keep` and that of
/// `best_step`. 0 keeps all checkpoints.
void remove_old_checkpoints(const std::filesystem::path& output, int64_t keep, int64_t best_step);

/// Whether a run that resumes from this checkpoint goes on in the folder that has it.
bool continues_in(const std::filesystem::path& output, const std::filesystem::path& resume_from);

/// Creates the output folder of a run that starts, or resumes from `resume_from` at `step`.
/// Checkpoints of later steps are removed, since the run will write them again. Throws if the
/// folder has checkpoints of another run.
void prepare_output(const std::filesystem::path& output,
                    const std::filesystem::path& resume_from,
                    int64_t step,
                    int64_t best_step);

}  // namespace reprise
