#include "train/loop/run_checkpoint.h"

#include "io/checksums.h"
#include "io/safetensors/distributed_write.h"
#include "model/lora/lora_convert.h"
#include "train/loop/checkpoint_folders.h"
#include "train/loop/rng_state.h"

#include <reprise/io/atomic_folder.h>
#include <reprise/io/file.h>
#include <reprise/model/lora.h>

#include <ATen/ATen.h>

#include <memory>
#include <optional>
#include <string>
#include <system_error>

namespace reprise {

namespace fs = std::filesystem;

namespace {

constexpr const char* kExtraStateFile = "objective.safetensors";

at::Device device_of(CheckpointedRun& run) {
  return run.learners().front()->model().device();
}

/// Checkpoints of older versions have no checksums.
void verify(const fs::path& folder, const World& world) {
  bool has_checksums = false;
  world.run_on_all("reading " + folder.string(), [&] {
    const Json json = read_json(folder / kTrainerStateFile);
    has_checksums = json.is_object() && json.contains("checksums");
  });
  if (has_checksums) {
    io::verify_checksums(folder, world);
  }
}

void write_parameter(const at::Tensor& values,
                     const std::string& name,
                     const at::Tensor& parameter,
                     const ShardedParameters* sharded) {
  if (sharded == nullptr) {
    at::Tensor(parameter).copy_(values);
    return;
  }
  const TensorPart part = sharded->part_of(name, parameter);
  if (part.values.defined() && part.values.numel() > 0) {
    at::Tensor(part.values).copy_(values.view(-1).narrow(0, part.begin, part.values.numel()));
  }
}

void load_parameter(const TensorCheckpoint& saved,
                    const fs::path& checkpoint,
                    const std::string& name,
                    const at::Tensor& parameter,
                    const ShardedParameters* sharded) {
  const TensorInfo* const info = saved.find(name);
  TORCH_CHECK(
      info != nullptr, checkpoint.string(), ": has no tensor ", name, ", which this run trains");
  if (sharded == nullptr) {
    saved.copy_to(name, parameter);
    return;
  }
  TORCH_CHECK(info->shape == parameter.sizes().vec(),
              checkpoint.string(),
              ": tensor ",
              name,
              ": expected shape ",
              parameter.sizes(),
              ", found ",
              at::IntArrayRef(info->shape));
  const TensorPart part = sharded->part_of(name, parameter);
  if (part.values.defined() && part.values.numel() > 0) {
    saved.copy_part_to(name, part.begin, part.values);
  }
}

void save_learner(const Learner& learner, const fs::path& folder, const World& world) {
  world.run_on_first("making " + folder.string(), [&] { create_folder(folder); });
  io::write_safetensors_distributed(
      world, folder / "optimizer.safetensors", learner.optimizer().state_parts());
  if (learner.average() != nullptr) {
    io::write_safetensors_distributed(
        world, folder / "ema.safetensors", learner.average()->state_parts());
  }
}

TensorFile open_together(const World& world, const fs::path& path) {
  std::optional<TensorFile> file;
  world.run_on_all("opening " + path.string(), [&] { file.emplace(path); });
  return *file;
}

void load_learner(const Learner& learner, const fs::path& folder, const World& world) {
  load_trained(learner.model(), folder);
  learner.optimizer().load(open_together(world, folder / "optimizer.safetensors"), world);
  if (learner.average() != nullptr) {
    learner.average()->load(open_together(world, folder / "ema.safetensors"), world);
  }
  if (auto* const sharded = learner.model().sharded_parameters()) {
    sharded->refresh();  // the optimizer rounds 16-bit parameters from its copies
  }
}

}  // namespace

// Reads the trained values under the names that save_model and save_adapter write.
void load_trained(const Model& model, const fs::path& checkpoint) {
  const at::NoGradGuard no_grad;
  ShardedParameters* const sharded = model.sharded_parameters();
  const World& world = sharded == nullptr ? World::single() : sharded->world();
  world.run_on_all("loading " + checkpoint.string(), [&] {
    const TensorCheckpoint saved(checkpoint, has_lora(model) ? "adapter_model" : "model");
    const auto restored = restore_starts(model, saved);
    for (const auto& [name, parameter] : trained_parameters(model)) {
      const auto own = restored.find(name);
      if (own != restored.end()) {
        write_parameter(own->second, name, parameter, sharded);
      } else {
        load_parameter(saved, checkpoint, name, parameter, sharded);
      }
    }
  });
  if (sharded != nullptr) {
    sharded->refresh();
  }
}

fs::path save_run_checkpoint(const fs::path& output,
                             CheckpointedRun& run,
                             const RunState& state,
                             const Json& configuration,
                             const World& world) {
  const fs::path final = checkpoint_folder(output, state.step);
  std::error_code ignored;
  const bool exists = world.is_first() && fs::exists(final, ignored);
  if (!world.broadcast(exists ? "exists" : "", "whether " + final.string() + " exists").empty()) {
    return final;  // the run was resumed from this checkpoint and has not made a step since
  }
  std::unique_ptr<AtomicFolder> partial;  // in the first process only
  world.run_on_first("making " + final.string(),
                     [&] { partial = std::make_unique<AtomicFolder>(final); });
  const fs::path folder =
      world.broadcast(partial ? partial->path().string() : "", "the name of " + final.string());
  run.save_models(folder);
  for (const auto* learner : run.learners()) {
    save_learner(*learner, folder / learner->name(), world);
  }
  const NamedTensors rng = rng_state(device_of(run), world);
  const NamedTensors extra = run.extra_state();
  world.run_on_first("completing " + final.string(), [&] {
    write_safetensors(folder / "rng.safetensors", rng);
    if (!extra.empty()) {
      write_safetensors(folder / kExtraStateFile, extra);
    }
    write_json(folder / kTrainerStateFile, state_json(state, configuration, world.size()));
    io::write_checksums(folder);
    write_json(folder / kLogsFile, logs_json(state));
    partial->commit();
  });
  return final;
}

RunState load_run_checkpoint(const fs::path& folder,
                             CheckpointedRun& run,
                             const World& world,
                             uint64_t seed) {
  verify(folder, world);
  RunState state;
  world.run_on_all("reading " + folder.string(), [&] { state = read_run_state(folder); });
  for (const auto* learner : run.learners()) {
    load_learner(*learner, folder / learner->name(), world);
  }
  world.run_on_all("reading " + folder.string(), [&] {
    if (!run.extra_state().empty()) {
      run.load_extra_state(TensorFile(folder / kExtraStateFile));
    }
    const TensorFile rng(folder / "rng.safetensors");
    restore_rng(rng, device_of(run), world, seed, state.step);
  });
  return state;
}

}  // namespace reprise
