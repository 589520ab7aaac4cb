#include "model/lora/lora_plan.h"

#include "model/lora/lora_targets.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise {

namespace {

using Modules = std::vector<std::pair<std::string, std::shared_ptr<torch::nn::Module>>>;

// Every module of the base model, by path.
Modules modules_of(const Model& model) {
  Modules modules;
  for (const auto& item : model.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    if (item.value()->as<LoraBranch>() == nullptr) {
      modules.emplace_back(item.key(), item.value());
    }
  }
  return modules;
}

// "q_proj, k_proj, …": the last names in the paths of all linear layers.
std::string projections_of(const Modules& modules) {
  std::vector<std::string> names;
  for (const auto& [path, module] : modules) {
    const std::string name = path.substr(path.rfind('.') + 1);
    if (module->as<Linear>() != nullptr &&
        std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  return c10::Join(", ", names);
}

void check_all_names_match(const LoraConfig& config, const Modules& modules) {
  const auto* names = std::get_if<std::vector<std::string>>(&config.targets);
  if (names == nullptr) {
    return;
  }
  for (const auto& name : *names) {
    const bool is_there = std::any_of(modules.begin(), modules.end(), [&](const auto& module) {
      return is_path_or_end(module.first, name);
    });
    TORCH_CHECK(is_there,
                "[lora] target_modules: the model has no module \"",
                name,
                "\". Its projections are ",
                projections_of(modules));
  }
}

std::vector<LoraTarget> targets_in(const Modules& modules,
                                   const LoraConfig& config,
                                   const LoraTargetRule& rule) {
  std::vector<LoraTarget> targets;
  for (const auto& [path, module] : modules) {
    auto projection = std::dynamic_pointer_cast<Linear>(module);
    if (!rule.matches(path, projection != nullptr)) {
      continue;
    }
    TORCH_CHECK(projection != nullptr,
                "[lora] target_modules: ",
                path,
                " is not a projection. Its projections are ",
                projections_of(modules));
    targets.push_back({path, std::move(projection), rule.rank(path), rule.scale(path)});
  }
  TORCH_CHECK(!targets.empty(),
              "[lora] target_modules",
              config.layers.empty() ? "" : " and layers_to_transform",
              " match no projection of the model. Its projections are ",
              projections_of(modules));
  return targets;
}

// peft writes both names for every classifier, whatever its own name is.
bool is_classifier_name(const std::string& name) {
  return name == "classifier" || name == "score";
}

void check_saved_names(const Model& model,
                       const std::vector<std::string>& names,
                       const std::vector<SavedModule>& saved) {
  for (const auto& name : names) {
    const bool is_there = std::any_of(saved.begin(), saved.end(), [&](const auto& module) {
      return module.path.ends_with(name);
    });
    TORCH_CHECK(is_there || !model.has_tied_head() || !model.head_path().ends_with(name),
                "[lora] modules_to_save: ",
                name,
                " shares its weight with the embedding (tie_word_embeddings), so that it cannot be "
                "trained apart from it: leave it out.");
    TORCH_CHECK(is_there || is_classifier_name(name),
                "[lora] modules_to_save: the model has no module \"",
                name,
                "\".");
  }
}

std::vector<SavedModule> saved_in(const Modules& modules,
                                  const Model& model,
                                  const LoraConfig& config) {
  std::vector<SavedModule> saved;
  for (const auto& [path, module] : modules) {
    if (!is_saved(config, path)) {
      continue;
    }
    auto layer = std::dynamic_pointer_cast<WeightAndBias>(module);
    TORCH_CHECK(layer != nullptr,
                "[lora] modules_to_save: ",
                path,
                " is neither a projection nor an embedding: only these can be trained whole.");
    TORCH_CHECK(!model.has_tied_head() || path != architecture_of(model.config()).embedding,
                "[lora] modules_to_save: ",
                path,
                " is also the head's weight (tie_word_embeddings), so that it cannot be trained "
                "apart from it: leave it out.");
    const auto* linear = layer->as<Linear>();
    TORCH_CHECK(linear == nullptr || linear->quantized() == nullptr,
                "[lora] modules_to_save: ",
                path,
                " is quantised, so that it cannot be trained as a whole: adapt it "
                "(target_modules), or leave it out of the quantisation (llm_int8_skip_modules).");
    saved.push_back({path, std::move(layer)});
  }
  check_saved_names(model, config.modules_to_save, saved);
  return saved;
}

void check_apart(const LoraPlan& plan) {
  for (const auto& saved : plan.saved) {
    const bool is_target =
        std::any_of(plan.targets.begin(), plan.targets.end(), [&](const auto& target) {
          return target.path == saved.path;
        });
    TORCH_CHECK(!is_target,
                "[lora] ",
                saved.path,
                " is named by target_modules and by modules_to_save: name it in one of them.");
  }
}

void check_layout(const LoraConfig& config, const std::vector<LoraTarget>& targets) {
  const bool is_in_out = has_in_out_weights(targets);
  TORCH_CHECK(!config.fan_in_fan_out || *config.fan_in_fan_out == is_in_out,
              "[lora] fan_in_fan_out: expected ",
              is_in_out ? "true, as this model stores weights (in, out)"
                        : "false, as this model stores weights (out, in)",
              ", found ",
              is_in_out ? "false" : "true");
}

const char* task_of(HeadKind head) {
  switch (head) {
    case HeadKind::CausalLm:
      return "CAUSAL_LM";
    case HeadKind::Score:
    case HeadKind::Value:
      return "SEQ_CLS";
    case HeadKind::TokenClasses:
      break;
  }
  return "TOKEN_CLS";
}

}  // namespace

bool is_saved(const LoraConfig& config, const std::string& path) {
  return std::any_of(config.modules_to_save.begin(),
                     config.modules_to_save.end(),
                     [&](const auto& name) { return path.ends_with(name); });
}

bool has_in_out_weights(const std::vector<LoraTarget>& targets) {
  return std::any_of(targets.begin(), targets.end(), [](const auto& target) {
    return target.module->shape().layout == WeightLayout::InOut;
  });
}

LoraPlan plan_lora(const Model& model, const LoraConfig& config, UnmatchedName unmatched) {
  const Modules modules = modules_of(model);
  const LoraTargetRule rule(config, model.head_path());
  if (unmatched == UnmatchedName::Error) {
    check_all_names_match(config, modules);
  }
  LoraPlan plan{targets_in(modules, config, rule), saved_in(modules, model, config)};
  check_apart(plan);
  check_layout(config, plan.targets);
  return plan;
}

LoraConfig with_task(const Model& model, LoraConfig config) {
  const std::string task = task_of(model.head());
  TORCH_CHECK(config.task_type.empty() || config.task_type == task,
              "[lora] task_type: expected ",
              task,
              " by the model's head (",
              model.head_path(),
              "), found ",
              config.task_type);
  config.task_type = task;
  return config;
}

LoraConfig with_head(const Model& model, LoraConfig config) {
  const std::string head = model.head_path();
  if (model.head() != HeadKind::CausalLm && !is_saved(config, head)) {
    config.modules_to_save.push_back(head.substr(head.rfind('.') + 1));
  }
  return config;
}

}  // namespace reprise
