#include "reprise/plan/plan_flags.h"

#include "reprise/plan/plan_table.h"
#include "reprise/training/effects/flag_effects.h"
#include "reprise/training/flags/command_line.h"
#include "reprise/training/flags/given_values.h"
#include "reprise/training/flags/suggest.h"
#include "reprise/training/flags/unknown_flag.h"
#include "reprise/training/flags/yaml_config.h"

#include <reprise/train/model_plan.h>

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>

namespace reprise::app {

namespace {

// Flags that change what a run stores, but that a plan does not cover.
constexpr std::array kNotPlanned = {"cast_lm_head_to_fp32",
                                    "critic_use_peft",
                                    "ema_decay",
                                    "freeze",
                                    "train_only",
                                    "host_memory_budget",
                                    "allow_lossy",
                                    "memory_plan",
                                    "precompute_ref_log_probs",
                                    "reward_model",
                                    "teacher_offload",
                                    "offload_reference",
                                    "offload_reward",
                                    "fsdp_cpu_offload"};

using Entries = std::vector<ConfigEntry>;

bool has_all(const FlagTable& table, const Entries& entries) {
  return std::all_of(entries.begin(), entries.end(), [&](const ConfigEntry& entry) {
    return plan_table().find(entry.key) != nullptr || table.find(entry.key) != nullptr;
  });
}

void check_known(const ConfigEntry& entry) {
  std::vector<std::string> names = plan_table().names();
  for (const Objective objective : kObjectives) {
    const auto own = table_of(objective).names();
    names.insert(names.end(), own.begin(), own.end());
  }
  if (std::find(names.begin(), names.end(), entry.key) != names.end()) {
    return;
  }
  const std::string value = entry.value.is_string() ? entry.value.get<std::string>() : "";
  const std::string known = about_unknown_flag(plan_table(), entry.key, value);
  TORCH_CHECK(known.empty(), entry.where, known);
  const std::string suggestion = suggest_flag(names, entry.key);
  TORCH_CHECK(false,
              entry.where,
              ": no training command has such a flag",
              suggestion.empty() ? "" : "; " + suggestion);
}

// A training.yaml does not name its command, but contains all of its flags, and no two commands
// have the same. A file with flags that several commands have is sft's, unless sft is not one of
// them.
Objective objective_of(const Entries& entries) {
  std::vector<std::string> names;
  std::vector<Objective> candidates;
  for (const Objective objective : kObjectives) {
    if (has_all(table_of(objective), entries)) {
      candidates.push_back(objective);
      names.push_back(to_string(objective));
    }
  }
  if (candidates.empty()) {
    std::for_each(entries.begin(), entries.end(), check_known);
  }
  TORCH_CHECK(!candidates.empty(), "no training command has all flags of the --config file");
  TORCH_CHECK(candidates.size() == 1 || candidates.front() == Objective::Sft,
              "the --config file may be one of ",
              c10::Join(", ", names),
              ": give --objective");
  return candidates.front();
}

std::vector<std::string> not_planned(const Entries& entries, Objective objective) {
  std::vector<std::string> found;
  for (const ConfigEntry& entry : entries) {
    const FlagSpec* flag = find_flag(objective, entry.key);
    if (flag == nullptr ||
        std::find(kNotPlanned.begin(), kNotPlanned.end(), flag->name) == kNotPlanned.end()) {
      continue;
    }
    TrainingFlags flags = default_flags(objective);
    assign(flags, *flag, {entry.value, entry.where});
    if (value_of(flags, *flag) != value_of(default_flags(objective), *flag)) {
      found.push_back(flag->name);
    }
  }
  return found;
}

bool has_lengths_of_parts(const GivenValues& given) {
  return given.contains("max_prompt_length") || given.contains("max_completion_length");
}

// --max_length, or what grpo and ppo have instead. What was typed overrides the file.
int64_t row_length(const TrainingFlags& flags, const GivenValues& filed, const GivenValues& typed) {
  const bool has_typed_parts = has_lengths_of_parts(typed);
  const bool has_parts = has_typed_parts || has_lengths_of_parts(filed);
  TORCH_CHECK(is_online(flags.objective) || !has_parts,
              "--max_prompt_length and --max_completion_length are for grpo and ppo: give "
              "--max_length");
  TORCH_CHECK(!has_typed_parts || !typed.contains("max_length"),
              "give --max_length, or --max_prompt_length and --max_completion_length");
  if (!has_parts || (!has_typed_parts && typed.contains("max_length"))) {
    return flags.max_length;
  }
  TORCH_CHECK(flags.max_prompt_length > 0,
              "a plan needs the length of prompts: give --max_prompt_length, or --max_length for a "
              "prompt with its completion");
  return flags.max_prompt_length + flags.max_completion_length;
}

void check_required(const FlagTable& table, const PlanFlags& flags) {
  for (const FlagSpec& flag : table.flags) {
    TORCH_CHECK(!flag.is_required || flags.training.given.contains(flag.name),
                "--",
                flag.name,
                " is required: ",
                flag.help);
  }
}

}  // namespace

std::shared_ptr<PlanFlags> add_plan_flags(CLI::App& command) {
  auto flags = std::make_shared<PlanFlags>();
  declare_flags(command, plan_table());
  command.get_option("--config")
      ->description(
          "YAML file of a training command, such as an earlier run's training.yaml; the command "
          "line takes precedence");
  command
      .add_option("--objective",
                  "Training command to plan for: sft, rm, dpo, kto, kd, grpo or ppo [default: that "
                  "of the --config file, else sft]")
      ->option_text("NAME")
      ->group("Training step");
  command
      .add_option("--world,--nproc",
                  flags->world,
                  "Number of processes, each with such a device; the plan is for one of them")
      ->option_text("COUNT")
      ->group("Device and memory");
  command.add_option("--html", flags->html, "Also write the plan as an HTML page")
      ->option_text("FILE")
      ->group("Output");
  command.add_flag("--json", flags->json, "Print the plan as JSON")->group("Output");
  return flags;
}

void finish_plan_flags(const CLI::App& command, PlanFlags& flags) {
  FlagTable table = plan_table();
  const CommandLine line = read_command_line(command, table);
  const GivenValues& typed = line.given;
  const std::string& file = line.config;
  const Entries entries = file.empty() ? Entries() : read_yaml_config(file);
  const auto& named = command.get_option("--objective")->results();
  const Objective objective =
      named.empty() ? objective_of(entries) : parse_planned_objective(named.back());
  const GivenValues filed = values_in_config(entries, table, &table_of(objective));
  flags.config = file;
  if (!file.empty()) {
    table.defaults = default_flags(objective);  // what training takes for a missing key
    flags.not_planned = not_planned(entries, objective);
  }
  flags.training = table.defaults;
  flags.training.objective = objective;
  flags.training.notes = line.notes;
  assign_all(flags.training, table, filed, typed);
  for (const GivenValues* values : {&filed, &typed}) {
    for (const auto& [name, given] : *values) {
      if (!given.value.is_null()) {
        flags.sources[name] = given.where;
      }
    }
  }
  for (const auto& [name, given] : typed) {
    flags.typed.insert(name);
  }
  check_required(table, flags);
  open_adapter(flags.training);
  check_precision(flags.training);
  check_lora(flags.training);
  check_quantization_effects(flags.training);
  check_optimizer(flags.training);
  enable_lora_if_set(flags.training, flags.has("use_peft"));
  flags.row_length = row_length(flags.training, filed, typed);
  TORCH_CHECK(flags.world || flags.training.parallel.empty(),
              "--parallel has no effect without --world, the number of processes");
}

}  // namespace reprise::app
