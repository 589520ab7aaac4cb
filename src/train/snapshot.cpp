#include "train/snapshot.h"

#include "train/rng_state.h"

#include <reprise/io/atomic_folder.h>
#include <reprise/io/file.h>
#include <reprise/io/write_together.h>
#include <reprise/model/lora.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

namespace reprise {

namespace fs = std::filesystem;

namespace {

constexpr const char* kStateFile = "trainer_state.json";
constexpr const char* kMoreFile = "objective.safetensors";
constexpr std::string_view kPrefix = "checkpoint-";

at::Device device_of(const RunParts& parts) {
  return parts.learners.front()->model().device();
}

Json to_json(const RunState& state, const Json& configuration, const World& world) {
  return {{"step", state.step},
          {"tokens", state.tokens},
          {"best_value", state.best_value ? Json(*state.best_value) : Json()},
          {"best_step", state.best_step},
          {"evaluations_without_best", state.evaluations_without_best},
          {"world_size", world.size()},
          {"configuration", configuration}};
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

RunState read_state(const fs::path& folder) {
  const auto file = folder / kStateFile;
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
  return state;
}

// The number of a folder called checkpoint-<number>; nothing for another name.
std::optional<int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  int64_t step = 0;
  const char* last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), last, step);
  return error == std::errc() && end == last ? std::optional(step) : std::nullopt;
}

std::map<int64_t, fs::path> checkpoints_in(const fs::path& output) {
  std::map<int64_t, fs::path> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(output, ignored)) {
    const auto step = step_of(entry.path());
    if (step && entry.is_directory() && fs::exists(entry.path() / kStateFile)) {
      found.emplace(*step, entry.path());
    }
  }
  return found;
}

// Renamed first: a checkpoint that is half removed must not look like one.
void remove_checkpoint(const fs::path& checkpoint) {
  fs::path doomed = checkpoint;
  doomed += ".partial-removed";
  fs::rename(checkpoint, doomed);
  std::error_code ignored;
  fs::remove_all(doomed, ignored);
}

void load_parameter(const SafetensorsCheckpoint& saved,
                    const fs::path& checkpoint,
                    const std::string& name,
                    const at::Tensor& parameter,
                    const ParameterKeeper* keeper) {
  const TensorInfo* const info = saved.find(name);
  TORCH_CHECK(
      info != nullptr, checkpoint.string(), ": has no tensor ", name, ", which this run trains");
  if (keeper == nullptr) {
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
  const TensorPart part = keeper->part_of(name, parameter);
  if (part.values.defined() && part.values.numel() > 0) {
    saved.copy_part_to(name, part.begin, part.values);
  }
}

void save_learner(const Learner& learner, const fs::path& folder, const World& world) {
  world.first_alone("making " + folder.string(), [&] { create_folder(folder); });
  write_safetensors_together(
      world, folder / "optimizer.safetensors", learner.optimizer().state_parts());
  if (learner.average() != nullptr) {
    write_safetensors_together(world, folder / "ema.safetensors", learner.average()->state_parts());
  }
}

SafetensorsFile open_together(const World& world, const fs::path& path) {
  std::optional<SafetensorsFile> file;
  world.together("opening " + path.string(), [&] { file.emplace(path); });
  return *file;
}

void load_learner(const Learner& learner, const fs::path& folder, const World& world) {
  load_trained(learner.model(), folder);
  learner.optimizer().load(open_together(world, folder / "optimizer.safetensors"), world);
  if (learner.average() != nullptr) {
    learner.average()->load(open_together(world, folder / "ema.safetensors"), world);
  }
  if (auto* const keeper = learner.model().keeper()) {
    keeper->refresh();  // the optimizer rounds 16-bit parameters from its copies
  }
}

}  // namespace

// The trained values, under the names that save_model and save_adapter wrote them by.
void load_trained(const Model& model, const fs::path& checkpoint) {
  const at::NoGradGuard no_grad;
  ParameterKeeper* const keeper = model.keeper();
  const World& world = keeper == nullptr ? World::single() : keeper->world();
  world.together("loading " + checkpoint.string(), [&] {
    const SafetensorsCheckpoint saved(checkpoint, has_lora(model) ? "adapter_model" : "model");
    for (const auto& [name, parameter] : trained_parameters(model)) {
      load_parameter(saved, checkpoint, name, parameter, keeper);
    }
  });
  if (keeper != nullptr) {
    keeper->refresh();
  }
}

fs::path save_snapshot(const fs::path& output,
                       const RunParts& parts,
                       const RunState& state,
                       const Json& configuration,
                       const World& world) {
  const fs::path final = output / (std::string(kPrefix) + std::to_string(state.step));
  std::error_code ignored;
  const bool is_there = world.is_first() && fs::exists(final, ignored);
  if (!world.from_first(is_there ? "there" : "", "whether " + final.string() + " is there")
           .empty()) {
    return final;  // a run that was resumed from it stands there again
  }
  std::unique_ptr<AtomicFolder> made;  // by the first process
  world.first_alone("making " + final.string(),
                    [&] { made = std::make_unique<AtomicFolder>(final); });
  const fs::path folder =
      world.from_first(made ? made->path().string() : "", "the name of " + final.string());
  parts.save_models(folder);
  for (const auto* learner : parts.learners) {
    save_learner(*learner, folder / learner->name(), world);
  }
  const NamedTensors rng = rng_state(device_of(parts), world);
  const NamedTensors more = parts.state();
  world.first_alone("completing " + final.string(), [&] {
    write_safetensors(folder / "rng.safetensors", rng);
    if (!more.empty()) {
      write_safetensors(folder / kMoreFile, more);
    }
    write_json(folder / kStateFile, to_json(state, configuration, world));
    made->commit();
  });
  return final;
}

RunState load_snapshot(const fs::path& folder,
                       const RunParts& parts,
                       const World& world,
                       uint64_t seed) {
  RunState state;
  world.together("reading " + folder.string(), [&] { state = read_state(folder); });
  for (const auto* learner : parts.learners) {
    load_learner(*learner, folder / learner->name(), world);
  }
  world.together("reading " + folder.string(), [&] {
    if (!parts.state().empty()) {
      parts.load(SafetensorsFile(folder / kMoreFile));
    }
    const SafetensorsFile rng(folder / "rng.safetensors");
    restore_rng(rng, device_of(parts), world, seed, state.step);
  });
  return state;
}

void clean_up(const fs::path& output, int64_t keep, int64_t best_step) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(output, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".partial-") != std::string::npos) {
      fs::remove_all(entry.path(), ignored);
    }
  }
  auto checkpoints = checkpoints_in(output);
  checkpoints.erase(best_step);
  while (keep > 0 && std::ssize(checkpoints) > keep) {
    remove_checkpoint(checkpoints.begin()->second);
    checkpoints.erase(checkpoints.begin());
  }
}

void prepare_output(const fs::path& output, const fs::path& resume_from, const RunState& state) {
  create_folder(output);
  std::error_code ignored;
  const bool goes_on =
      !resume_from.empty() &&
      fs::equivalent(fs::weakly_canonical(resume_from).parent_path(), output, ignored);
  TORCH_CHECK(goes_on || latest_checkpoint(output).empty(),
              "[train] ",
              output.string(),
              ": has checkpoints of another run. Resume from one of them, or name another folder.");
  clean_up(output, /*keep=*/0, state.best_step);
  const auto checkpoints = checkpoints_in(output);
  for (auto later = checkpoints.upper_bound(state.step); later != checkpoints.end(); ++later) {
    remove_checkpoint(later->second);
  }
}

fs::path latest_checkpoint(const fs::path& output) {
  const auto checkpoints = checkpoints_in(output);
  return checkpoints.empty() ? fs::path() : checkpoints.rbegin()->second;
}

Json checkpoint_configuration(const fs::path& checkpoint) {
  const auto file = checkpoint / kStateFile;
  TORCH_CHECK(fs::exists(file),
              checkpoint.string(),
              ": is no checkpoint of a training run: it has no ",
              kStateFile);
  const Json json = read_json(file);
  TORCH_CHECK(json.is_object() && json.contains("configuration"),
              file.string(),
              ": configuration: is missing");
  return json["configuration"];
}

}  // namespace reprise
