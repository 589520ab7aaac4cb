#include "reprise/training/output_dir.h"

#include <reprise/io/file.h>
#include <reprise/train/trainer.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace reprise::app {

namespace fs = std::filesystem;

namespace {

// Settings that a run may change when it goes on: they do not change what it computes. Memory
// policies are among them, since results are the same to the last bit under all of them.
constexpr std::array<std::string_view, 22> kFree = {"logging_steps",
                                                    "save_steps",
                                                    "save_total_limit",
                                                    "resume_from_checkpoint",
                                                    "overwrite_output_dir",
                                                    "output_dir",
                                                    "cache_dir",
                                                    "show_example",
                                                    "config",
                                                    "eval_data",
                                                    "eval_steps",
                                                    "per_device_eval_batch_size",
                                                    "load_best_model_at_end",
                                                    "precompute_ref_log_probs",
                                                    "precompute_ref_batch_size",
                                                    "teacher_offload",
                                                    "gradient_checkpointing",
                                                    "gradient_checkpointing_use_reentrant",
                                                    "gradient_checkpointing_kwargs",
                                                    "gradient_checkpointing_ratio",
                                                    "gradient_checkpointing_layers",
                                                    "gradient_checkpointing_policy"};

void check_same_run(const fs::path& checkpoint, const Json& configuration) {
  const Json before = checkpoint_configuration(checkpoint);
  std::string differences;
  for (const auto& [name, value] : configuration.items()) {
    const bool is_free = std::find(kFree.begin(), kFree.end(), name) != kFree.end();
    if (!is_free && (!before.contains(name) || before[name] != value)) {
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
  return name.starts_with("checkpoint-") || name == "metrics.jsonl" || name == "runs" ||
         name == "training.yaml" || name == "report.html";
}

bool holds_a_run(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (belongs_to_a_run(entry.path())) {
      return true;
    }
  }
  return false;
}

void remove_run(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (belongs_to_a_run(entry.path())) {
      fs::remove_all(entry.path());
    }
  }
}

// What a killed process left of files that it was writing.
void remove_torn_files(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name.starts_with(".")) {
      fs::remove(entry.path());
    }
  }
}

}  // namespace

fs::path prepare_output(const TrainingFlags& flags, const Json& configuration) {
  const fs::path output = flags.output_dir;
  create_folder(output);
  if (flags.overwrite_output_dir) {
    remove_run(output);
    return {};
  }
  if (flags.resume_from_checkpoint.empty()) {
    TORCH_CHECK(!holds_a_run(output),
                output.string(),
                ": holds another run. Go on with it by --resume_from_checkpoint auto, begin again "
                "by --overwrite_output_dir, or name another --output_dir.");
    return {};
  }
  remove_torn_files(output);
  const fs::path checkpoint = flags.resume_from_checkpoint == "auto"
                                  ? latest_checkpoint(output)
                                  : fs::path(flags.resume_from_checkpoint);
  if (!checkpoint.empty()) {
    check_same_run(checkpoint, configuration);
  }
  return checkpoint;
}

}  // namespace reprise::app
