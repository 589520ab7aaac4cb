// Which settings a run may change when it goes on, and which make it another.
#include "reprise/training/same_run.h"

#include <reprise/train/trainer.h>

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace reprise::app {

namespace fs = std::filesystem;

namespace {

// Settings that a run may change when it goes on: they do not change what it computes. Memory
// policies are among them, since results are the same to the last bit under all of them.
constexpr std::array kFree =
    std::to_array<std::string_view>({"logging_steps",
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
                                     "reward_url_format",
                                     "reward_batch_size",
                                     "rollout_batch_size",
                                     "samples_steps",
                                     "samples_shown",
                                     "offload_reference",
                                     "offload_reward",
                                     "offload_optimizer",
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

// Also if it is said of one role, as in "critic.gradient_checkpointing".
bool is_free(std::string_view name) {
  const auto of_all = name.substr(name.find('.') + 1);
  return std::find(kFree.begin(), kFree.end(), of_all) != kFree.end();
}

// How the rows of a step, or of a generation, are cut into micro-batches.
constexpr std::array kCuts = std::to_array<const char*>(
    {"per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation"});

struct StepRows {
  int64_t a_step = 0;
  int64_t a_generation = 0;
  bool operator==(const StepRows&) const = default;
};

StepRows rows_of(const Json& configuration, int64_t world_size) {
  const auto count = [&](const char* name) { return configuration.value(name, int64_t{0}); };
  const int64_t at_once = count(kCuts[0]) * world_size;
  return {at_once * count(kCuts[1]), at_once * count(kCuts[2])};
}

/// Throws unless as many rows are a step as before. Returns whether they may be cut differently:
/// then another number of processes computes the same, up to the order of sums. kto compares the
/// rows of a micro-batch, which must stay together.
bool may_cut_differently(const Json& configuration, int64_t world_size, const Json& before) {
  const int64_t size_before = before.value("world_size", int64_t{1});
  if (world_size == size_before) {
    return false;
  }
  const StepRows was = rows_of(before, size_before);
  const StepRows now = rows_of(configuration, world_size);
  const auto text = [](const Json& values, int64_t processes) {
    return c10::str(values.value(kCuts[0], Json()),
                    " rows x ",
                    values.value(kCuts[1], Json()),
                    " micro-batches x ",
                    processes,
                    processes == 1 ? " process" : " processes");
  };
  TORCH_CHECK(was == now,
              "another number of processes may go on with a run if its steps have as many rows: "
              "they had ",
              text(before, size_before),
              " = ",
              was.a_step,
              ", now they would have ",
              text(configuration, world_size),
              " = ",
              now.a_step,
              was.a_step == now.a_step
                  ? ", but generations would differ: change --steps_per_generation too"
                  : ". Change --gradient_accumulation_steps or --per_device_train_batch_size");
  return true;
}

}  // namespace

void check_same_run(const fs::path& checkpoint,
                    const TrainingFlags& flags,
                    const Json& configuration,
                    int64_t world_size) {
  const Json before = checkpoint_configuration(checkpoint);
  const bool is_lossy = configuration.value("allow_lossy", false);  // plans then change results
  const bool cuts_freely = may_cut_differently(configuration, world_size, before);
  const auto is_cut = [&](const std::string& name) {
    const bool stays = flags.objective == Objective::Kto && name == kCuts[0];
    return cuts_freely && !stays && std::find(kCuts.begin(), kCuts.end(), name) != kCuts.end();
  };
  std::string differences;
  for (const auto& [name, value] : configuration.items()) {
    if ((!is_free(name) || (is_lossy && name.ends_with("memory_budget"))) && !is_cut(name) &&
        (!before.contains(name) || before[name] != value)) {
      differences += "\n  --" + name + ": was " +
                     (before.contains(name) ? before[name].dump() : "not there") + ", now " +
                     value.dump();
    }
  }
  TORCH_CHECK(differences.empty(),
              checkpoint.string(),
              " was made with other settings, with which going on would be another run:",
              differences,
              "\nGive the same, or start anew in another --output_dir.");
}

void check_same_data(const fs::path& checkpoint, const std::string& data_key) {
  if (checkpoint.empty()) {
    return;
  }
  const Json before = checkpoint_configuration(checkpoint);
  TORCH_CHECK(
      before.contains("data_key") && before["data_key"] == data_key,
      checkpoint.string(),
      ": the data, its tokenizer or how rows are read have changed since, so going on would "
      "be another run. Begin again by --overwrite_output_dir.");
}

}  // namespace reprise::app
