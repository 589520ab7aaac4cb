// An observer of your own: prints the run, and stops it when the loss is low enough. A stopped run
// leaves a checkpoint, so it can be resumed.
#include "tiny.h"

#include <iostream>

namespace {

class StopsAtLoss final : public reprise::TrainingObserver {
 public:
  explicit StopsAtLoss(double loss) : enough_(loss) {}

  void on_train_begin(const reprise::RunProgress& progress,
                      const reprise::CheckpointedBlocks& checkpointing) override {
    std::cout << progress.total_steps << " steps, checkpointing: " << checkpointing.description
              << "\n";
  }

  // What checkpointing did in the first step, measured.
  void on_checkpointing_checked(const reprise::CheckpointingEffect& effect,
                                int64_t activation_bytes) override {
    std::cout << effect.recomputed << " regions recomputed, " << effect.bytes_dropped
              << " bytes not kept, activations " << activation_bytes << " bytes\n";
  }

  void on_step_end(const reprise::RunProgress& progress, const reprise::Json& record) override {
    loss_ = record["loss"].get<double>();  // the record is the step's line of metrics.jsonl
    if (progress.step % 10 == 0) {
      std::cout << "step " << progress.step << ": loss " << loss_ << "\n";
    }
  }

  void on_save(const std::filesystem::path& folder) override {
    std::cout << "saved " << folder.filename().string() << "\n";
  }

  bool should_stop() const override { return loss_ < enough_; }

 private:
  double enough_;
  double loss_ = 1e9;
};

/// After each letter the next one.
std::shared_ptr<const reprise::Dataset> alphabet() {
  std::vector<reprise::Example> examples;
  for (char letter = 'a'; letter < 'u'; ++letter) {
    examples.push_back(byte_example({letter, '>'}, {static_cast<char>(letter + 1), ';'}));
  }
  return std::make_shared<ExampleList>(std::move(examples));
}

}  // namespace

int main() {
  reprise::track_cpu_memory();  // before the first tensor: train() reports bytes
  const TemporaryFolder folder;
  const auto model = tiny_model();
  model->enable_checkpointing();
  const auto objective = reprise::make_sft(model);
  const auto save = [&](const std::filesystem::path& where) { reprise::save_model(*model, where); };
  reprise::TrainerOptions options;
  options.output = folder.path() / "output";
  options.batch_size = 10;
  options.epochs = 200;
  options.learning_rate = 3e-3;
  StopsAtLoss observer(0.5);
  const auto summary = reprise::train(
      {.objective = *objective, .data = alphabet(), .save_model = save}, options, observer);
  const bool is_stopped = summary.end == reprise::TrainingEnd::Stopped;
  std::cout << (is_stopped ? "stopped" : "ended") << " after " << summary.progress.step
            << " steps; continue from " << reprise::latest_checkpoint(options.output).filename()
            << "\n";
  return is_stopped ? 0 : 1;
}
