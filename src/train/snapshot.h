// A run on disk: checkpoint-N has all that is needed to go on after step N as if nothing had
// happened.
//
// The folder appears under its name only when it is whole, so whatever is called checkpoint-N can
// be resumed from. Beside the model's own files: optimizer.safetensors, rng.safetensors,
// trainer_state.json and, where there is such state, objective.safetensors and ema.safetensors.
//
// Several processes write one folder of the same format, each what it has, and any number of them
// goes on from it. They all call save_snapshot and load_snapshot, and share the output folder.
#pragma once

#include "train/learner.h"

#include <reprise/dist/world.h>
#include <reprise/io/safetensors.h>
#include <reprise/train/trainer.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

namespace reprise {

/// What changes from step to step beside tensors.
struct RunState {
  int64_t step = 0;
  int64_t tokens = 0;  ///< seen so far
  std::optional<double> best_value;
  int64_t best_step = 0;
  int64_t evaluations_without_best = 0;
};

/// The parts of a run that a snapshot is made of.
struct RunParts {
  /// The first is the run's model. Further ones have their files in folders of their names.
  std::vector<Learner*> learners;
  /// Writes the models and what belongs to them into a folder. All processes call it.
  std::function<void(const std::filesystem::path&)> save_models;
  /// What else there is to save, the same in all processes, and where it goes back.
  std::function<NamedTensors()> state;
  std::function<void(const SafetensorsFile&)> load;
};

/// Writes output/checkpoint-<step>. Throws if it cannot, in all processes; then nothing of it
/// stays.
std::filesystem::path save_snapshot(const std::filesystem::path& output,
                                    const RunParts& parts,
                                    const RunState& state,
                                    const Json& configuration,
                                    const World& world);

/// Puts everything back, random generators included. Throws, naming file and field, for a folder
/// that is not whole or of another kind of run; then the parts are of no use. `seed` is for
/// processes that the checkpoint has no random state of.
RunState load_snapshot(const std::filesystem::path& folder,
                       const RunParts& parts,
                       const World& world,
                       uint64_t seed);

/// Removes what killed runs left half-written, and all but the newest `keep` checkpoints and the
/// best; keep 0: none is removed.
void clean_up(const std::filesystem::path& output, int64_t keep, int64_t best_step);

/// Makes the folder of a run that begins, or goes on from `resume_from`, at `state`. Checkpoints of
/// steps to come are removed, as they are made again. Those of another run are refused.
void prepare_output(const std::filesystem::path& output,
                    const std::filesystem::path& resume_from,
                    const RunState& state);

}  // namespace reprise
