// Checkpoints of a run: the folder checkpoint-N has everything needed to continue after step N as
// if the run had never stopped.
//
// The folder gets its final name only when it is complete, so any folder named checkpoint-N can be
// resumed from. Besides the model's own files it has optimizer.safetensors, rng.safetensors,
// trainer_state.json, checksums.json, logs.json and, if there is such state, objective.safetensors
// and ema.safetensors.
//
// All processes save and load together and share the output folder. Each writes its own shards; the
// format does not depend on the number of processes, so a run may continue with another number.
#pragma once

#include "train/loop/learner.h"
#include "train/loop/run_state.h"

#include <reprise/dist/world.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/train/trainer.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace reprise {

/// The parts of a run that go into its checkpoints.
class CheckpointedRun {
 public:
  virtual ~CheckpointedRun() = default;

  /// The first trains the run's main model. Files of the others are in folders of their names.
  virtual std::vector<Learner*> learners() = 0;
  /// Writes the models and the files beside them into a folder. All processes call it.
  virtual void save_models(const std::filesystem::path& folder) = 0;
  /// Further tensors to save, the same in all processes; may be empty.
  virtual NamedTensors extra_state() const = 0;
  virtual void load_extra_state(const TensorFile& file) = 0;
};

/// Writes output/checkpoint-<step> and returns its path. If that fails, all processes throw and no
/// part of the folder is left.
std::filesystem::path save_run_checkpoint(const std::filesystem::path& output,
                                          CheckpointedRun& run,
                                          const RunState& state,
                                          const Json& configuration,
                                          const World& world);

/// Restores models, optimizers, extra state and random generators. Throws, naming file and field,
/// if the folder is incomplete or damaged, contradicts itself or belongs to another kind of run;
/// `run` is unusable after that.
/// `seed` is for processes whose random state is not in the checkpoint.
RunState load_run_checkpoint(const std::filesystem::path& folder,
                             CheckpointedRun& run,
                             const World& world,
                             uint64_t seed);

}  // namespace reprise
