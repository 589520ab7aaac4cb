// What a user sees during a run: the progress line, messages and TensorBoard events.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags/flags.h"
#include "reprise/training/run/run_figures.h"
#include "reprise/training/run/run_warnings.h"

#include <reprise/report/event_file.h>
#include <reprise/train/trainer.h>

#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace reprise::app {

class RunObserver final : public TrainingObserver {
 public:
  struct Settings {
    std::filesystem::path output;
    const TrainingFlags& flags;
    c10::Device device = c10::kCPU;
    std::string policy;         ///< of checkpointing, for the message at the start
    std::string configuration;  ///< as YAML, for TensorBoard's text tab
  };

  RunObserver(Settings settings, ProgressLine& line);

  void on_batch_size_chosen(const std::vector<BatchTrial>& trials,
                            int64_t batch_size,
                            int64_t accumulation) override;
  void on_planning(int64_t rows, int64_t length) override;
  void on_train_begin(const RunProgress& progress,
                      const CheckpointedBlocks& checkpointing) override;
  void on_step_end(const RunProgress& progress, const Json& record) override;
  void on_checkpointing_checked(const CheckpointingEffect& effect,
                                int64_t activation_bytes) override;
  void on_evaluate(const RunProgress& progress, const Json& record) override;
  void on_save(const std::filesystem::path& folder) override;
  /// Whether SIGINT or SIGTERM has arrived.
  bool should_stop() const override;

  const std::vector<int64_t>& checkpointed_blocks() const { return blocks_; }
  const std::string& checkpointing() const { return checkpointing_; }

 private:
  Settings settings_;
  ProgressLine& line_;
  EventFile events_;
  std::vector<int64_t> blocks_;
  std::string checkpointing_ = "off";
  RunFigures figures_;
  std::optional<RunWarnings> warnings_;  // from when training begins
};

}  // namespace reprise::app
