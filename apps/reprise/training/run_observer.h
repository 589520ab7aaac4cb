// What a user sees of a run while it goes on: the progress line, notes, TensorBoard events.
#pragma once

#include "reprise/progress_line.h"

#include <reprise/train/event_file.h>
#include <reprise/train/trainer.h>

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reprise::app {

class RunObserver final : public TrainingObserver {
 public:
  struct Settings {
    std::filesystem::path output;
    int64_t logging_steps = 10;
    c10::Device device = c10::kCPU;
    std::string policy;         ///< of checkpointing, for the line at the start
    std::string configuration;  ///< as YAML, for TensorBoard's text page
  };

  RunObserver(Settings settings, ProgressLine& line);

  void chose_batch(const std::vector<BatchTrial>& trials,
                   int64_t batch_size,
                   int64_t accumulation) override;
  void begin(const RunProgress& progress, const EffectCheck& effect) override;
  void step(const RunProgress& progress, const Json& record) override;
  void effect(const CheckpointingEffect& effect, int64_t activation_bytes) override;
  void evaluated(const RunProgress& progress, const Json& record) override;
  void saved(const std::filesystem::path& folder) override;
  /// Whether SIGINT or SIGTERM came.
  bool should_stop() const override;

  const std::vector<int64_t>& checkpointed_blocks() const { return blocks_; }
  const std::string& checkpointing() const { return checkpointing_; }

 private:
  Settings settings_;
  ProgressLine& line_;
  EventFile events_;
  std::vector<int64_t> blocks_;
  std::string checkpointing_ = "off";
  std::string rewards_;  // of the newest generation, not printed yet
};

}  // namespace reprise::app
