// Runs of twelve steps, with a checkpoint after each, of every objective; sft with much else that a
// run has: evaluations, noise, an average.
#pragma once

#include "app/running.h"
#include "support/fixtures.h"
#include "support/run_metrics.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace reprise::testing {

/// Where the training data and models of the objective are, and what else it needs.
inline std::vector<std::string> flags_of(const std::string& objective,
                                         const std::filesystem::path& folder) {
  const auto fixture = [](const std::string& name) {
    return (fixtures() / "training" / name).string();
  };
  const auto on = [&](const std::string& model, const std::string& data) {
    return std::vector<std::string>{
        "--model", fixture("models/" + model), "--data", fixture("data/" + data + ".jsonl")};
  };
  const auto with = [](std::vector<std::string> flags, const std::vector<std::string>& more) {
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  };
  if (objective == "sft") {
    return with(on("policy", "sft_text"),
                {"--eval_data",
                 fixture("data/sft_text.jsonl"),
                 "--eval_steps",
                 "4",
                 "--neftune_noise_alpha",
                 "5",
                 "--ema_decay",
                 "0.9"});
  }
  if (objective == "grpo" || objective == "ppo") {
    const auto prompts = folder / "prompts.jsonl";
    std::ofstream(prompts) << R"({"prompt": "One and one is"}
{"prompt": "Two and one is"}
{"prompt": "Five and two is"}
{"prompt": "Two and two is"}
)";
    return with({"--model",
                 fixture("models/policy"),
                 "--data",
                 prompts.string(),
                 "--num_generations",
                 "2",
                 "--max_completion_length",
                 "8"},
                objective == "grpo"
                    ? std::vector<std::string>{"--reward_function", "regex:pattern=[aeiou]"}
                    : std::vector<std::string>{"--reward_model", fixture("models/score")});
  }
  return objective == "rm"    ? on("score", "reward")
         : objective == "prm" ? on("steps", "steps")
         : objective == "dpo" ? on("policy", "pairs")
         : objective == "kto"
             ? on("policy", "unpaired")
             : with(on("policy", "sft_completion"), {"--teacher_model", fixture("models/teacher")});
}

/// `folder` is for what several runs share: data, caches.
inline std::vector<std::string> small_run(const std::string& objective,
                                          const std::filesystem::path& output,
                                          const std::filesystem::path& folder) {
  std::vector<std::string> words{objective};
  const auto own = flags_of(objective, folder);
  words.insert(words.end(), own.begin(), own.end());
  if (objective != "grpo" && objective != "ppo") {
    words.insert(words.end(), {"--cache_dir", (folder / "cache").string()});
  }
  words.insert(words.end(),
               {"--output_dir",
                output.string(),
                "--max_steps",
                "12",
                "--per_device_train_batch_size",
                "2",
                "--gradient_accumulation_steps",
                "2",
                "--learning_rate",
                "1e-3",
                "--gradient_checkpointing",
                "--save_steps",
                "1",
                "--save_total_limit",
                "2",
                "--device",
                "cpu",
                "--resume_from_checkpoint",
                "auto"});
  return words;
}

/// Weights to the last byte, and metrics but for times and bytes.
inline void expect_same_run(const std::filesystem::path& output,
                            const std::filesystem::path& whole) {
  EXPECT_EQ(read_text(output / "model.safetensors"), read_text(whole / "model.safetensors"));
  EXPECT_EQ(computed_metrics(output), computed_metrics(whole));
  EXPECT_FALSE(is_saving(output)) << "a half-written checkpoint was left";
}

}  // namespace reprise::testing
