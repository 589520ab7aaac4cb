// Which settings may change when a run resumes.
#include "reprise/training/effects/same_run.h"

#include <reprise/train/trainer.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace reprise::app {

namespace fs = std::filesystem;

namespace {

// Settings that may change when a run resumes, as they do not change results. Memory policies are
// among them: results are bitwise identical under all of them.
constexpr std::array kFree =
    std::to_array<std::string_view>({"allow_changes",
                                     "allow_untrained_positions",
                                     "base",
                                     "logging_steps",
                                     "save_steps",
                                     "save_total_limit",
                                     "resume_from_checkpoint",
                                     "overwrite_output_dir",
                                     "output_dir",
                                     "cache_dir",
                                     "show_example",
                                     "eval_data",
                                     "eval_steps",
                                     "eval_packing",
                                     "per_device_eval_batch_size",
                                     "load_best_model_at_end",
                                     "precompute_ref_log_probs",
                                     "precompute_ref_batch_size",
                                     "teacher_offload",
                                     "reward_timeout",
                                     "reward_command",
                                     "reward_url",
                                     "reward_auth_file",
                                     "reward_url_format",
                                     "reward_batch_size",
                                     "rollout_batch_size",
                                     "samples_steps",
                                     "samples_shown",
                                     "offload_reference",
                                     "offload_reward",
                                     "optimizer_offload",
                                     "gradient_offload",
                                     "gradient_checkpointing",
                                     "gradient_checkpointing_use_reentrant",
                                     "gradient_checkpointing_kwargs",
                                     "gradient_checkpointing_ratio",
                                     "gradient_checkpointing_layers",
                                     "gradient_checkpointing_policy",
                                     "activation_memory_budget",
                                     "memory_budget",
                                     "host_memory_budget",
                                     "memory_plan",
                                     "parallel",
                                     "fsdp_cpu_offload",
                                     "fsdp_prefetch",
                                     "comm_timeout"});

// Settings that may change with --allow_changes: they say how long the run is and with what
// learning rates it goes on. Nothing that a checkpoint contains depends on them.
constexpr std::array kChangeable = std::to_array<std::string_view>({"num_train_epochs",
                                                                    "max_steps",
                                                                    "learning_rate",
                                                                    "critic_learning_rate",
                                                                    "lr_scheduler_type",
                                                                    "warmup_steps",
                                                                    "warmup_ratio",
                                                                    "min_lr_ratio",
                                                                    "lr_decay_steps"});

bool is_changeable(std::string_view name) {
  return std::find(kChangeable.begin(), kChangeable.end(), name) != kChangeable.end();
}

// Also with the prefix of a role, as in "critic.gradient_checkpointing".
bool is_free(std::string_view name) {
  const auto of_all = name.substr(name.find('.') + 1);
  return std::find(kFree.begin(), kFree.end(), of_all) != kFree.end();
}

// How the rows of a step, or of a generation, are split into micro-batches.
constexpr std::array kSplitSettings = std::to_array<const char*>(
    {"per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation"});

struct Product {
  const char* factors;
  int64_t value;
};

/// The products that must not change, so that a step in another number of processes computes the
/// same, up to the order of summation.
std::vector<Product> kept_of(Objective objective, const Json& configuration, int64_t processes) {
  const auto count = [&](const char* name) { return configuration.value(name, int64_t{0}); };
  const int64_t rows = count(kSplitSettings[0]);
  const int64_t micro_batches = count(kSplitSettings[1]);
  const int64_t generation =
      count(kSplitSettings[2]) > 0 ? count(kSplitSettings[2]) : micro_batches;
  if (objective == Objective::Sft ||
      objective == Objective::Kd) {  // every token has the same weight
    return {{"--per_device_train_batch_size x --gradient_accumulation_steps x processes",
             rows * micro_batches * processes}};
  }
  if (objective == Objective::Kto) {  // compares with a mean over the rows of all processes
    return {{"--per_device_train_batch_size x processes", rows * processes},
            {"--gradient_accumulation_steps", micro_batches}};
  }
  return {// a mean over micro-batches, which must stay the same
          {"--per_device_train_batch_size", rows},
          {"--gradient_accumulation_steps x processes", micro_batches * processes},
          {"--steps_per_generation x processes", generation * processes}};
}

/// Whether the rows may be split differently, because the number of processes differs. Throws if
/// that would change what a step computes.
bool may_split_differently(Objective objective,
                           const Json& configuration,
                           int64_t processes,
                           const Json& before) {
  const int64_t processes_before = before.value("world_size", int64_t{1});
  if (processes == processes_before) {
    return false;
  }
  const auto was = kept_of(objective, before, processes_before);
  const auto now = kept_of(objective, configuration, processes);
  for (size_t i = 0; i < was.size(); ++i) {
    TORCH_CHECK(was[i].value == now[i].value,
                "resuming in ",
                processes,
                processes == 1 ? " process" : " processes",
                " instead of ",
                processes_before,
                ": ",
                was[i].factors,
                " must stay ",
                was[i].value,
                ", and would be ",
                now[i].value);
  }
  return true;
}

std::string difference_text(const Json& before, const std::string& name, const Json& value) {
  return name + ": was " + (before.contains(name) ? before[name].dump() : "not there") + ", now " +
         value.dump();
}

}  // namespace

void check_same_run(const fs::path& checkpoint,
                    const TrainingFlags& flags,
                    const Json& configuration,
                    int64_t world_size) {
  const Json before = checkpoint_configuration(checkpoint);
  const bool is_lossy = configuration.value("allow_lossy", false);  // then plans change results
  const bool splits_freely =
      may_split_differently(flags.objective, configuration, world_size, before);
  const auto is_split_setting = [&](const std::string& name) {
    return splits_freely &&
           std::find(kSplitSettings.begin(), kSplitSettings.end(), name) != kSplitSettings.end();
  };
  std::string differences;
  bool are_changeable = true;
  for (const auto& [name, value] : configuration.items()) {
    const bool may_differ = (is_free(name) && !(is_lossy && name.ends_with("memory_budget"))) ||
                            is_split_setting(name) || (flags.allow_changes && is_changeable(name));
    if (!may_differ && (!before.contains(name) || before[name] != value)) {
      differences += "\n  --" + difference_text(before, name, value);
      are_changeable = are_changeable && is_changeable(name);
    }
  }
  TORCH_CHECK(differences.empty(),
              checkpoint.string(),
              " was made with other settings, so this would not be the same run:",
              differences,
              "\nGive the same settings, ",
              are_changeable ? "add --allow_changes to go on with these, " : "",
              "or start a new run in another --output_dir.");
}

Json changes_of_run(const fs::path& checkpoint, const Json& configuration) {
  if (checkpoint.empty()) {
    return Json::array();
  }
  const Json before = checkpoint_configuration(checkpoint);
  const Json state = read_json(checkpoint / "trainer_state.json");
  Json changes = before.value("changes", Json::array());
  TORCH_CHECK(changes.is_array() && state.contains("step") &&
                  std::all_of(changes.begin(),
                              changes.end(),
                              [](const Json& change) {
                                return change.is_object() && change.contains("setting") &&
                                       change["setting"].is_string();
                              }),
              checkpoint.string(),
              "/trainer_state.json: changes: expected objects with a setting");
  for (const auto name : kChangeable) {
    const std::string setting(name);
    if (configuration.contains(setting) && before.contains(setting) &&
        before[setting] != configuration[setting]) {
      changes.push_back({{"step", state["step"]},
                         {"setting", setting},
                         {"from", before[setting]},
                         {"to", configuration[setting]}});
    }
  }
  return changes;
}

std::vector<std::string> change_lines(const Json& changes) {
  std::vector<std::string> lines;
  for (const auto& change : changes) {
    lines.push_back("--" + change.value("setting", "") + ": was " +
                    change.value("from", Json()).dump() + ", now " +
                    change.value("to", Json()).dump() + " (after step " +
                    change.value("step", Json()).dump() + ")");
  }
  return lines;
}

void check_same_data(const fs::path& checkpoint, const std::string& data_key) {
  if (checkpoint.empty()) {
    return;
  }
  const Json before = checkpoint_configuration(checkpoint);
  TORCH_CHECK(before.contains("data_key") && before["data_key"] == data_key,
              checkpoint.string(),
              ": the data, its tokenizer or how rows are read have changed since, so this would "
              "not be the same run. Start again with --overwrite_output_dir.");
}

}  // namespace reprise::app
