// An adapter that is trained further: its base model, and LoRA flags, which must agree with it.
#include "reprise/adapter_folder.h"
#include "reprise/training/effects/flag_effects.h"
#include "reprise/training/flags/flag_table.h"
#include "reprise/training/options/lora_config.h"

#include <reprise/model/lora.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <string_view>

namespace reprise::app {

namespace {

using Names = std::vector<std::string>;

// A flag names modules by their ends; adapters of ours have the paths of all modules.
bool is_end_of(const std::string& name, const std::string& path) {
  return path == name || path.ends_with("." + name);
}

bool name_the_same(const Names& given, const Names& paths) {
  const auto names_path = [&](const std::string& path) {
    return std::any_of(
        given.begin(), given.end(), [&](const auto& name) { return is_end_of(name, path); });
  };
  const auto has_path = [&](const std::string& name) {
    return std::any_of(
        paths.begin(), paths.end(), [&](const auto& path) { return is_end_of(name, path); });
  };
  return std::all_of(paths.begin(), paths.end(), names_path) &&
         std::all_of(given.begin(), given.end(), has_path);
}

bool agree_on_targets(const Names& given, const LoraConfig::Targets& targets) {
  if (given == Names{"all-linear"}) {
    return true;  // the model tells: see open_model.cpp
  }
  const auto* paths = std::get_if<Names>(&targets);
  const auto* expression = std::get_if<std::string>(&targets);
  return paths != nullptr ? name_the_same(given, *paths)
                          : expression != nullptr && given == Names{*expression};
}

bool agrees(const std::string& setting, const TrainingFlags& flags, const LoraConfig& adapter) {
  if (setting == "lora_r") {
    return flags.lora_r == adapter.rank;
  }
  if (setting == "lora_alpha") {
    return flags.lora_alpha == adapter.alpha;
  }
  if (setting == "lora_dropout") {
    return flags.lora_dropout == adapter.dropout;
  }
  if (setting == "use_rslora") {
    return flags.use_rslora == adapter.use_rslora;
  }
  if (setting == "use_dora") {
    return flags.use_dora == adapter.use_dora;
  }
  if (setting == "init_lora_weights") {
    return false;  // an adapter that is trained further begins as it is
  }
  if (setting == "lora_rank_pattern") {
    return rank_pattern(flags.lora_rank_pattern) == adapter.rank_pattern;
  }
  if (setting == "lora_alpha_pattern") {
    return alpha_pattern(flags.lora_alpha_pattern) == adapter.alpha_pattern;
  }
  if (setting == "layers_to_transform") {
    return layers_to_transform(flags.layers_to_transform) == adapter.layers;
  }
  if (setting == "exclude_modules") {
    return adapter.excluded == LoraConfig::Names(flags.exclude_modules);
  }
  return setting == "lora_modules_to_save"
             ? name_the_same(flags.lora_modules_to_save, adapter.modules_to_save)
             : agree_on_targets(flags.lora_target_modules, adapter.targets);
}

std::string value_in(const std::string& setting, const LoraConfig& adapter) {
  const Json json = adapter.to_json();
  constexpr std::string_view kPrefix = "lora_";
  const std::string bare = setting.substr(kPrefix.size() * (setting.starts_with(kPrefix) ? 1 : 0));
  const std::string field = json.contains(setting) ? setting : bare;  // lora_alpha, but r
  return json.value(field, Json()).dump();
}

}  // namespace

void open_adapter(TrainingFlags& flags) {
  const auto folders = model_folders({flags.model, flags.adapter}, flags.base);
  flags.model = folders.model;
  flags.adapter = folders.adapter;
  flags.base.clear();
  flags.given.erase("base");
  if (!flags.adapter.empty()) {
    flags.given.insert("adapter");
  }
}

void check_adapter_settings(const TrainingFlags& flags) {
  TORCH_CHECK(flags.use_peft || !flags.given.contains("use_peft"),
              "--use_peft false trains all weights, and ",
              flags.adapter,
              " is a LoRA adapter: make a model of it first, ",
              merge_command(flags.adapter),
              ", and train --model MERGED");
  for (const std::string& setting : lora_settings()) {
    if (flags.given.contains(setting)) {
      const auto adapter = LoraConfig::read(flags.adapter);
      TORCH_CHECK(agrees(setting, flags, adapter),
                  "--",
                  setting,
                  " ",
                  value_of(flags, *find_flag(flags.objective, setting)).dump(),
                  ": the adapter ",
                  flags.adapter,
                  " is trained further, and has ",
                  value_in(setting, adapter),
                  ". Leave the flag out, or make a model of the adapter first, ",
                  merge_command(flags.adapter),
                  ", and train a new one on --model MERGED");
    }
  }
}

}  // namespace reprise::app
