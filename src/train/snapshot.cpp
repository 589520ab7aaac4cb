#include "train/snapshot.h"

#include <reprise/io/atomic_folder.h>
#include <reprise/io/file.h>
#include <reprise/model/lora.h>

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
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

at::Generator generator_of(const at::Device& device) {
  return at::globalContext().defaultGenerator(device);
}

NamedTensors rng_state(const at::Device& device) {
  NamedTensors state;
  const auto add = [&](const char* name, at::Generator generator) {
    const std::scoped_lock lock(generator.mutex());
    state.emplace_back(name, generator.get_state());
  };
  add("cpu", generator_of(at::kCPU));
  if (!device.is_cpu()) {
    add("device", generator_of(device));
  }
  return state;
}

void restore_rng(const SafetensorsFile& file, const at::Device& device) {
  const auto restore = [&](const char* name, at::Generator generator) {
    const auto* info = file.find(name);
    TORCH_CHECK(info != nullptr, file.path().string(), ": has no state \"", name, "\"");
    const std::scoped_lock lock(generator.mutex());
    const auto size = generator.get_state().numel();
    TORCH_CHECK(info->dtype == at::kByte && info->shape == std::vector<int64_t>{size},
                file.path().string(),
                ": \"",
                name,
                "\": expected ",
                size,
                " bytes of a generator's state");
    generator.set_state(file.view(*info).clone());
  };
  restore("cpu", generator_of(at::kCPU));
  if (!device.is_cpu()) {
    restore("device", generator_of(device));
  }
}

Json to_json(const RunState& state, const Json& configuration) {
  return {{"step", state.step},
          {"tokens", state.tokens},
          {"best_value", state.best_value ? Json(*state.best_value) : Json()},
          {"best_step", state.best_step},
          {"evaluations_without_best", state.evaluations_without_best},
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

}  // namespace

// The trained values, under the names that save_model and save_adapter wrote them by.
void load_trained(const Model& model, const fs::path& checkpoint) {
  const at::NoGradGuard no_grad;
  const SafetensorsCheckpoint saved(checkpoint, has_lora(model) ? "adapter_model" : "model");
  for (auto [name, parameter] : trained_parameters(model)) {
    TORCH_CHECK(saved.find(name) != nullptr,
                checkpoint.string(),
                ": has no tensor ",
                name,
                ", which this run trains");
    saved.copy_to(name, parameter);
  }
}

fs::path save_snapshot(const fs::path& output,
                       const RunParts& parts,
                       const RunState& state,
                       const Json& configuration) {
  const fs::path final = output / (std::string(kPrefix) + std::to_string(state.step));
  if (fs::exists(final)) {
    return final;  // a run that was resumed from it stands there again
  }
  AtomicFolder folder(final);
  parts.save_models(folder.path());
  for (const auto* learner : parts.learners) {
    const auto own = folder.path() / learner->name();
    create_folder(own);
    write_safetensors(own / "optimizer.safetensors", learner->optimizer().state());
    if (learner->average() != nullptr) {
      write_safetensors(own / "ema.safetensors", learner->average()->state());
    }
  }
  write_safetensors(folder.path() / "rng.safetensors", rng_state(device_of(parts)));
  if (const auto more = parts.state(); !more.empty()) {
    write_safetensors(folder.path() / kMoreFile, more);
  }
  write_json(folder.path() / kStateFile, to_json(state, configuration));
  folder.commit();
  return final;
}

RunState load_snapshot(const fs::path& folder, const RunParts& parts) {
  const RunState state = read_state(folder);
  for (const auto* learner : parts.learners) {
    const auto own = folder / learner->name();
    load_trained(learner->model(), own);
    learner->optimizer().load(SafetensorsFile(own / "optimizer.safetensors"));
    if (learner->average() != nullptr) {
      learner->average()->load(SafetensorsFile(own / "ema.safetensors"));
    }
  }
  if (!parts.state().empty()) {
    parts.load(SafetensorsFile(folder / kMoreFile));
  }
  restore_rng(SafetensorsFile(folder / "rng.safetensors"), device_of(parts));
  return state;
}

void seed_everything(uint64_t seed, const at::Device& device) {
  for (const at::Device& each : {at::Device(at::kCPU), device}) {
    auto generator = generator_of(each);
    const std::scoped_lock lock(generator.mutex());
    generator.set_current_seed(seed);
  }
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
