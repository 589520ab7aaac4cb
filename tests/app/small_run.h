// A run of twelve steps that uses much of what a run has: evaluations, noise, an average, and a
// checkpoint after each step.
#pragma once

#include "app/running.h"
#include "support/fixtures.h"
#include "support/run_metrics.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace reprise::testing {

inline std::vector<std::string> small_run(const std::filesystem::path& output,
                                          const std::filesystem::path& cache) {
  namespace fs = std::filesystem;
  const fs::path training = fixtures() / "training";
  return {"sft",
          "--model",
          (training / "models" / "policy").string(),
          "--data",
          (training / "data" / "sft_text.jsonl").string(),
          "--eval_data",
          (training / "data" / "sft_text.jsonl").string(),
          "--eval_steps",
          "4",
          "--output_dir",
          output.string(),
          "--cache_dir",
          cache.string(),
          "--max_steps",
          "12",
          "--per_device_train_batch_size",
          "2",
          "--gradient_accumulation_steps",
          "2",
          "--learning_rate",
          "1e-3",
          "--neftune_noise_alpha",
          "5",
          "--ema_decay",
          "0.9",
          "--gradient_checkpointing",
          "--save_steps",
          "1",
          "--save_total_limit",
          "2",
          "--device",
          "cpu",
          "--resume_from_checkpoint",
          "auto"};
}

/// Weights to the last byte, and metrics but for times and bytes.
inline void expect_same_run(const std::filesystem::path& output,
                            const std::filesystem::path& whole) {
  EXPECT_EQ(read_text(output / "model.safetensors"), read_text(whole / "model.safetensors"));
  EXPECT_EQ(computed_metrics(output), computed_metrics(whole));
  EXPECT_FALSE(is_saving(output)) << "a half-written checkpoint was left";
}

}  // namespace reprise::testing
