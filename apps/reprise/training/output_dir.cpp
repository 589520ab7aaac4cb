// Looks at what an output folder holds before anything is written to it.
#include "reprise/training/output_dir.h"

#include <reprise/io/file.h>
#include <reprise/io/torn_files.h>
#include <reprise/train/trainer.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

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
                                     "memory_plan"});

// Also if it is said of one role, as in "critic.gradient_checkpointing".
bool is_free(std::string_view name) {
  const auto of_all = name.substr(name.find('.') + 1);
  return std::find(kFree.begin(), kFree.end(), of_all) != kFree.end();
}

void check_same_run(const fs::path& checkpoint, const Json& configuration) {
  const Json before = checkpoint_configuration(checkpoint);
  const bool is_lossy = configuration.value("allow_lossy", false);  // plans then change results
  std::string differences;
  for (const auto& [name, value] : configuration.items()) {
    if ((!is_free(name) || (is_lossy && name.ends_with("memory_budget"))) &&
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

bool belongs_to_a_run(const fs::path& entry) {
  const std::string name = entry.filename().string();
  return name.starts_with("checkpoint-") || name == "metrics.jsonl" || name == "samples.jsonl" ||
         name == "runs" || name == "training.yaml" || name == "report.html" ||
         name == "memory_plan.json" || (name.starts_with("memory") && name.ends_with(".html")) ||
         name == "ema";
}

bool is_model_file(const fs::path& entry) {
  const std::string name = entry.filename().string();
  return name.starts_with("adapter_") || name == "critic" ||
         (name.starts_with("model") && name.find(".safetensors") != std::string::npos);
}

template <class Kind>
bool holds(const fs::path& folder, const Kind& is_kind) {
  std::error_code not_there;
  for (const auto& entry : fs::directory_iterator(folder, not_there)) {
    if (is_kind(entry.path())) {
      return true;
    }
  }
  return false;
}

template <class Kind>
void remove_all(const fs::path& folder, const Kind& is_kind) {
  std::vector<fs::path> doomed;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (is_kind(entry.path())) {
      doomed.push_back(entry.path());
    }
  }
  for (const auto& path : doomed) {
    fs::remove_all(path);
  }
}

}  // namespace

fs::path check_output(const TrainingFlags& flags, const Json& configuration) {
  const fs::path output = flags.output_dir;
  if (flags.overwrite_output_dir) {
    return {};
  }
  if (flags.resume_from_checkpoint.empty()) {
    TORCH_CHECK(!holds(output, belongs_to_a_run),
                output.string(),
                ": holds another run. Go on with it by --resume_from_checkpoint auto, begin again "
                "by --overwrite_output_dir, or name another --output_dir.");
    return {};
  }
  const fs::path checkpoint = flags.resume_from_checkpoint == "auto"
                                  ? latest_checkpoint(output)
                                  : fs::path(flags.resume_from_checkpoint);
  TORCH_CHECK(!checkpoint.empty() || !holds(output, is_model_file),
              output.string(),
              ": has a model but no checkpoint to go on from: its run is done. Begin again by "
              "--overwrite_output_dir, or name another --output_dir.");
  if (!checkpoint.empty()) {
    check_same_run(checkpoint, configuration);
  }
  return checkpoint;
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

void clear_output(const TrainingFlags& flags) {
  const fs::path output = flags.output_dir;
  create_folder(output);
  if (flags.overwrite_output_dir) {
    remove_all(output, [](const fs::path& entry) {
      return belongs_to_a_run(entry) || is_model_file(entry);
    });
  }
  // The run is this process's alone, so whoever was writing here is not any more.
  remove_all(output, writer_of_torn_file);
}

}  // namespace reprise::app
