#include "train/loop/run_checkpoint.h"

#include "io/checksums.h"
#include "io/safetensors/distributed_write.h"
#include "train/loop/checkpoint_folders.h"
#include "train/loop/rng_state.h"

#include <reprise/io/atomic_folder.h>
#include <reprise/io/file.h>
#include <reprise/model/lora.h>

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <system_error>

namespace reprise {

namespace fs = std::filesystem;

namespace {

constexpr const char* kExtraStateFile = "objective.safetensors";
// Apart from the state and its checksums, which are the same whenever a run is repeated. Logs have
// times in them.
constexpr const char* kLogsFile = "logs.json";

at::Device device_of(CheckpointedRun& run) {
  return run.learners().front()->model().device();
}

Json state_json(const RunState& state, const Json& configuration, const World& world) {
  return {{"step", state.step},
          {"tokens", state.tokens},
          {"best_value", state.best_value ? Json(*state.best_value) : Json()},
          {"best_step", state.best_step},
          {"evaluations_without_best", state.evaluations_without_best},
          {"world_size", world.size()},
          {"logs", kLogsFile},
          {"checksums", io::kChecksumsFile},
          {"configuration", configuration}};
}

Json logs_json(const RunState& state) {
  Json logs = Json::object();
  for (const auto& [name, mark] : state.logs) {
    logs[name] = {{"bytes", mark.bytes}, {"crc32", mark.crc32}};
  }
  return logs;
}

int64_t count_in(const Json& json, const char* key, const std::string& where) {
  TORCH_CHECK(json.is_object() && json.contains(key) && json[key].is_number_integer() &&
                  json[key].get<int64_t>() >= 0,
              where,
              ": ",
              key,
              ": expected a count");
  return json[key].get<int64_t>();
}

std::map<std::string, MetricsMark> read_logs(const fs::path& file) {
  std::map<std::string, MetricsMark> logs;
  const Json json = read_json(file);
  TORCH_CHECK(json.is_object(), file.string(), ": expected an object, found ", kind_of(json));
  for (const auto& [name, mark] : json.items()) {
    const std::string where = file.string() + ": " + name;
    const int64_t crc32 = count_in(mark, "crc32", where);
    TORCH_CHECK(crc32 <= UINT32_MAX, where, ": crc32: expected 32 bits");
    logs[name] = {static_cast<uint64_t>(count_in(mark, "bytes", where)),
                  static_cast<uint32_t>(crc32)};
  }
  return logs;
}

void check_consistent(const RunState& state, const fs::path& folder, const std::string& where) {
  const auto step = step_in_name(folder);
  TORCH_CHECK(!step || *step == state.step,
              where,
              ": step: expected that of the folder, ",
              step.value_or(0),
              ", found ",
              state.step);
  TORCH_CHECK(state.best_step <= state.step && state.evaluations_without_best <= state.step,
              where,
              ": expected a best_step and evaluations_without_best of at most ",
              state.step);
}

RunState read_state(const fs::path& folder) {
  const auto file = folder / kTrainerStateFile;
  const Json json = read_json(file);
  const std::string where = file.string();
  RunState state;
  state.step = count_in(json, "step", where);
  state.tokens = count_in(json, "tokens", where);
  state.best_step = count_in(json, "best_step", where);
  state.evaluations_without_best = count_in(json, "evaluations_without_best", where);
  if (json.contains("best_value") && json["best_value"].is_number()) {
    state.best_value = json["best_value"].get<double>();
  }
  if (json.contains("logs")) {  // not in checkpoints of older versions
    state.logs = read_logs(folder / kLogsFile);
  }
  check_consistent(state, folder, where);
  return state;
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

void load_parameter(const SafetensorsCheckpoint& saved,
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

SafetensorsFile open_together(const World& world, const fs::path& path) {
  std::optional<SafetensorsFile> file;
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
    const SafetensorsCheckpoint saved(checkpoint, has_lora(model) ? "adapter_model" : "model");
    for (const auto& [name, parameter] : trained_parameters(model)) {
      load_parameter(saved, checkpoint, name, parameter, sharded);
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
    write_json(folder / kTrainerStateFile, state_json(state, configuration, world));
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
  world.run_on_all("reading " + folder.string(), [&] { state = read_state(folder); });
  for (const auto* learner : run.learners()) {
    load_learner(*learner, folder / learner->name(), world);
  }
  world.run_on_all("reading " + folder.string(), [&] {
    if (!run.extra_state().empty()) {
      run.load_extra_state(SafetensorsFile(folder / kExtraStateFile));
    }
    const SafetensorsFile rng(folder / "rng.safetensors");
    restore_rng(rng, device_of(run), world, seed, state.step);
  });
  return state;
}

Json checkpoint_configuration(const fs::path& checkpoint) {
  const auto file = checkpoint / kTrainerStateFile;
  TORCH_CHECK(fs::exists(file),
              checkpoint.string(),
              ": is not a checkpoint of a training run: it has no ",
              kTrainerStateFile);
  const Json json = read_json(file);
  TORCH_CHECK(json.is_object() && json.contains("configuration"),
              file.string(),
              ": configuration: is missing");
  return json["configuration"];
}

}  // namespace reprise
