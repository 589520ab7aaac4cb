// The flags of a run: the command line overrides the config file, which overrides the defaults.
#include "reprise/training/flags/flags.h"

#include "reprise/training/effects/flag_effects.h"
#include "reprise/training/flags/command_line.h"
#include "reprise/training/flags/given_values.h"
#include "reprise/training/flags/yaml_config.h"
#include "reprise/training/options/checkpointing_request.h"

#include <c10/util/Exception.h>

namespace reprise::app {

namespace {

void check_required(const TrainingFlags& flags) {
  for (const FlagSpec& flag : flags_of(flags.objective)) {
    TORCH_CHECK(!flag.is_required || flags.given.contains(flag.name),
                "--",
                flag.name,
                " is required: ",
                flag.help);
  }
}

// Derives values from others and replaces alternative spellings.
void complete(TrainingFlags& flags) {
  if (flags.objective == Objective::Rm && flags.loss_type.front() == "logexp") {
    flags.use_margin = false;
  }
  if (!flags.metric_for_best_model.empty() && !flags.metric_for_best_model.starts_with("eval_")) {
    flags.metric_for_best_model.insert(0, "eval_");
  }
  if (!flags.metric_for_best_model.empty() && !flags.given.contains("greater_is_better")) {
    flags.greater_is_better = !flags.metric_for_best_model.ends_with("loss");  // as in transformers
  }
  if (flags.resume_from_checkpoint == "true") {  // as in transformers
    flags.resume_from_checkpoint = "auto";
  }
}

}  // namespace

std::shared_ptr<TrainingFlags> add_training_flags(CLI::App& command, Objective objective) {
  declare_flags(command, table_of(objective));
  return std::make_shared<TrainingFlags>(default_flags(objective));
}

void finish_flags(const CLI::App& command, TrainingFlags& flags) {
  const FlagTable& table = table_of(flags.objective);
  const CommandLine line = read_command_line(command, table);
  const GivenValues& typed = line.given;
  const GivenValues filed =
      line.config.empty() ? GivenValues() : values_in_config(read_yaml_config(line.config), table);
  flags = table.defaults;
  flags.notes = line.notes;
  assign_all(flags, table, filed, typed);
  if (is_online(flags.objective)) {
    std::set<std::string> said;  // unlike `given`, with defaults that the file repeats
    for (const auto* values : {&typed, &filed}) {
      for (const auto& [name, value] : *values) {
        said.insert(name);
      }
    }
    complete_online(flags, said);
  }
  check_required(flags);
  open_adapter(flags);
  check_effects(flags);
  enable_lora_if_set(flags, typed.contains("use_peft") || filed.contains("use_peft"));
  complete(flags);
  if (flags.objective != Objective::Ppo) {  // check_effects() has checked its roles
    checkpointing_request(flags);
  }
}

}  // namespace reprise::app
