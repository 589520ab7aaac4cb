// Saves adapters to a folder that peft and vLLM can load. The config is written last, so that a
// folder that can be loaded is complete.
#include <reprise/model/lora.h>

#include "model/lora/lora_convert.h"
#include "model/lora/lora_plan.h"

#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/io/safetensors.h>
#include "io/safetensors/distributed_write.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <set>

namespace reprise {

namespace {

// With the config of other adapters the folder could not be loaded, or would compute something
// else.
void check_made_with(const LoraPlan& plan, const LoraConfig& config, const NamedTensors& tensors) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    names.insert(name);
  }
  constexpr const char* kAdvice =
      ": save_adapter needs the config that the adapters were made with.";
  for (const auto& target : plan.targets) {
    const auto& branch = target.module->branch();
    TORCH_CHECK(branch != nullptr, "[lora] ", target.path, " has no adapter", kAdvice);
    TORCH_CHECK(branch->rank() == target.rank && branch->scale() == target.scale,
                "[lora] ",
                target.path,
                ": the adapter has rank ",
                branch->rank(),
                " and scale ",
                branch->scale(),
                ", by the config rank ",
                target.rank,
                " and scale ",
                target.scale,
                kAdvice);
    TORCH_CHECK(branch->subtracts_start() == config.init.is_decomposition(),
                "[lora] ",
                target.path,
                ": by the config the adapter began with ",
                config.init.name(),
                ", which it did not",
                kAdvice);
    names.erase(adapter_name(target.path, kMatrixA));
    names.erase(adapter_name(target.path, kMatrixB));
    TORCH_CHECK(branch->is_dora() == config.use_dora,
                "[lora] ",
                target.path,
                ": the adapter is ",
                branch->is_dora() ? "" : "not ",
                "DoRA",
                kAdvice);
    names.erase(adapter_name(target.path, kMagnitude));
  }
  for (const auto& saved : plan.saved) {
    TORCH_CHECK(saved.module->has_original(), "[lora] ", saved.path, " is not trained", kAdvice);
    for (const auto& parameter : saved.module->named_parameters()) {
      names.erase(adapter_name(saved.path, parameter.key()));
    }
  }
  TORCH_CHECK(names.empty(), "[lora] the config does not name ", *names.begin(), kAdvice);
}

// Like peft, writes the module names that "all-linear" means for this model.
void name_targets(LoraConfig& config, const LoraPlan& plan) {
  if (!std::holds_alternative<LoraConfig::AllLinear>(config.targets)) {
    return;
  }
  std::vector<std::string> paths;
  paths.reserve(plan.targets.size());
  for (const auto& target : plan.targets) {
    paths.push_back(target.path);
  }
  std::sort(paths.begin(), paths.end());
  config.targets = std::move(paths);
}

bool holds(const NamedTensors& tensors, const std::string& name) {
  return std::any_of(
      tensors.begin(), tensors.end(), [&](const auto& item) { return item.first == name; });
}

// If the model is sharded, each process writes its parts.
void write_tensors(const Model& model, const std::filesystem::path& file, NamedTensors tensors) {
  const ShardedParameters* const sharded = model.sharded_parameters();
  const auto whole = converted_tensors(model);
  std::vector<TensorPart> parts;
  for (auto& [name, tensor] : tensors) {
    const auto found = whole.find(name);
    if (found != whole.end()) {
      tensor = found->second;
      parts.push_back({name, tensor.sizes().vec(), 0, tensor.view(-1)});
    } else if (sharded != nullptr) {
      parts.push_back(sharded->part_of(name, tensor));
    }
  }
  if (sharded == nullptr) {
    write_safetensors(file, tensors);
    return;
  }
  io::write_safetensors_distributed(sharded->world(), file, parts);
}

}  // namespace

void save_adapter(const Model& model,
                  const std::filesystem::path& folder,
                  const LoraConfig& config) {
  TORCH_CHECK(has_lora(model), "[lora] the model has no adapters to save.");
  const NamedTensors tensors = adapter_tensors(model);
  LoraConfig complete = with_task(model, config);
  if (holds(tensors, adapter_name(model.head_path(), "weight"))) {
    complete = with_head(model, std::move(complete));
  }
  const LoraPlan plan = plan_lora(model, complete, UnmatchedName::Allowed);
  check_made_with(plan, complete, tensors);
  name_targets(complete, plan);
  complete = converted(std::move(complete));
  complete.fan_in_fan_out = has_in_out_weights(plan.targets);

  const World& world =
      model.sharded_parameters() == nullptr ? World::single() : model.sharded_parameters()->world();
  world.run_on_first("making " + folder.string(), [&] { create_folder(folder); });
  write_tensors(model, folder / "adapter_model.safetensors", tensors);
  world.run_on_first("completing " + folder.string(),
                     [&] { write_json(folder / "adapter_config.json", complete.to_json()); });
}

}  // namespace reprise
