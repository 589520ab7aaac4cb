// An observer that remembers what it was told, and may end a run.
#pragma once

#include <reprise/io/json.h>
#include <reprise/train/trainer.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

namespace reprise::testing {

struct CollectingObserver : TrainingObserver {
  std::vector<Json> steps;
  std::vector<Json> evaluations;
  std::vector<std::filesystem::path> checkpoints;
  std::optional<CheckpointingEffect> first_effect;
  RunProgress start;
  int64_t stop_after = -1;  ///< a step; -1: never
  std::function<void(int64_t step)> between_steps = {};

  void on_train_begin(const RunProgress& progress,
                      const CheckpointedBlocks& /*checkpointing*/) override {
    start = progress;
  }
  void on_step_end(const RunProgress& progress, const Json& record) override {
    steps.push_back(record);
    if (between_steps) {
      between_steps(progress.step);
    }
  }
  void on_checkpointing_checked(const CheckpointingEffect& effect,
                                int64_t /*activation_bytes*/) override {
    first_effect = effect;
  }
  void on_evaluate(const RunProgress& /*progress*/, const Json& record) override {
    evaluations.push_back(record);
  }
  void on_save(const std::filesystem::path& folder) override { checkpoints.push_back(folder); }
  bool should_stop() const override {
    return stop_after >= 0 && !steps.empty() && steps.back()["step"] == stop_after;
  }

  /// One value of every step.
  std::vector<double> all(const std::string& name) const {
    std::vector<double> values;
    for (const Json& record : steps) {
      values.push_back(record.at(name).get<double>());
    }
    return values;
  }
};

}  // namespace reprise::testing
