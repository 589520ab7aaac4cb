// The flags of a run: command line over config file over the defaults of the objective.
#include "reprise/training/flags.h"

#include "reprise/training/command_line.h"
#include "reprise/training/flag_effects.h"
#include "reprise/training/flag_spec.h"
#include "reprise/training/parallel_flags.h"
#include "reprise/training/yaml_config.h"

#include <c10/util/Exception.h>

namespace reprise::app {

namespace {

GivenValues read_config(const CLI::App& command, Objective objective) {
  GivenValues given;
  const std::string file = config_file(command);
  if (file.empty()) {
    return given;
  }
  for (ConfigEntry& entry : read_yaml_config(file)) {
    const FlagSpec* flag = find_flag(objective, entry.key);
    if (flag == nullptr) {
      refuse_other_parallelism(entry.key);
      const std::string suggestion = suggest_flag(command, entry.key);
      TORCH_CHECK(false,
                  entry.where,
                  ": ",
                  to_string(objective),
                  " has no such flag",
                  suggestion.empty() ? "" : "; " + suggestion);
    }
    TORCH_CHECK(!given.contains(flag->name), entry.where, ": --", flag->name, " is there twice");
    given[flag->name] = {std::move(entry.value), std::move(entry.where)};
  }
  return given;
}

void assign_all(TrainingFlags& flags, const GivenValues& filed, const GivenValues& typed) {
  const TrainingFlags defaults = default_flags(flags.objective);
  for (const FlagSpec& flag : flags_of(flags.objective)) {
    for (const GivenValues* values : {&filed, &typed}) {
      const auto found = values->find(flag.name);
      if (found != values->end()) {
        assign(flags, flag, found->second);
      }
    }
    // A saved configuration has every flag: its defaults say nothing. Nor does a flag that takes
    // back what the file says.
    const bool is_default = value_of(flags, flag) == value_of(defaults, flag);
    if (!is_default || (typed.contains(flag.name) && !filed.contains(flag.name))) {
      flags.given.insert(flag.name);
    }
  }
}

void check_required(const TrainingFlags& flags) {
  for (const FlagSpec& flag : flags_of(flags.objective)) {
    TORCH_CHECK(!flag.is_required || flags.given.contains(flag.name),
                "--",
                flag.name,
                " is required: ",
                flag.help);
  }
}

// Any flag of LoRA switches it on, unless somebody said that it is to be off.
void switch_lora_on(TrainingFlags& flags, bool has_choice) {
  for (const std::string& name : lora_settings()) {
    if (flags.given.contains(name)) {
      TORCH_CHECK(flags.use_peft || !has_choice,
                  "--",
                  name,
                  " has no effect with --use_peft false, which trains all weights");
      flags.use_peft = true;
    }
  }
}

// Values that follow from others, and other spellings of the same.
void complete(TrainingFlags& flags) {
  if (flags.objective == Objective::Rm && flags.loss_type.front() == "logexp") {
    flags.use_margin = false;
  }
  if (!flags.metric_for_best_model.empty() && !flags.metric_for_best_model.starts_with("eval_")) {
    flags.metric_for_best_model.insert(0, "eval_");
  }
  if (!flags.metric_for_best_model.empty() && !flags.given.contains("greater_is_better")) {
    flags.greater_is_better = !flags.metric_for_best_model.ends_with("loss");  // as transformers
  }
  if (flags.resume_from_checkpoint == "true") {  // as transformers takes it
    flags.resume_from_checkpoint = "auto";
  }
}

}  // namespace

std::shared_ptr<TrainingFlags> add_training_flags(CLI::App& command, Objective objective) {
  declare_flags(command, objective);
  return std::make_shared<TrainingFlags>(default_flags(objective));
}

void finish_flags(const CLI::App& command, TrainingFlags& flags) {
  const GivenValues typed = read_command_line(command, flags.objective);
  const GivenValues filed = read_config(command, flags.objective);
  flags = default_flags(flags.objective);
  assign_all(flags, filed, typed);
  if (is_online(flags.objective)) {
    std::set<std::string> said;  // also a default that a file repeats
    for (const auto* values : {&typed, &filed}) {
      for (const auto& [name, value] : *values) {
        said.insert(name);
      }
    }
    complete_online(flags, said);
  }
  check_required(flags);
  check_effects(flags);
  switch_lora_on(flags, typed.contains("use_peft") || filed.contains("use_peft"));
  complete(flags);
  if (flags.objective != Objective::Ppo) {  // whose roles have been asked already
    checkpointing_request(flags);
  }
}

}  // namespace reprise::app
