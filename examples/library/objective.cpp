// An objective of your own: next-token prediction with label smoothing. model() and loss() are
// enough; checkpointing, gradient accumulation, evaluation and resuming come from train().
#include "tiny.h"

#include <iostream>
#include <utility>

namespace {

class SmoothedLabels final : public reprise::TrainingObjective {
 public:
  SmoothedLabels(std::shared_ptr<reprise::Model> model, double smoothing)
      : model_(std::move(model)), smoothing_(smoothing) {}

  reprise::Model& model() const override { return *model_; }

  // A step's loss is a mean over its trained tokens, however they are split into micro-batches.
  double weight(const reprise::Batch& batch) const override {
    return shifted_labels(batch).ne(reprise::kIgnoredLabel).sum().item<double>();
  }

  reprise::BatchLoss loss(const reprise::Batch& batch,
                          const reprise::StepContext& context) override {
    const auto logits = model_->forward(
        {.input_ids = batch.main.input_ids, .attention_mask = batch.main.attention_mask});
    context.forward_done();
    const auto sum = at::cross_entropy_loss(logits.slice(/*dim=*/1, 0, -1).flatten(0, 1),
                                            shifted_labels(batch).flatten(),
                                            /*weight=*/{},
                                            at::Reduction::Sum,
                                            reprise::kIgnoredLabel,
                                            smoothing_);
    return {sum / context.total_weight};
  }

 private:
  /// (B, T - 1): the label of the token that each position predicts.
  static at::Tensor shifted_labels(const reprise::Batch& batch) {
    return batch.main.labels.slice(/*dim=*/1, 1);
  }

  std::shared_ptr<reprise::Model> model_;
  double smoothing_;
};

std::shared_ptr<const reprise::Dataset> greetings() {
  std::vector<reprise::Example> examples(32);
  for (size_t i = 0; i < examples.size(); ++i) {
    examples[i] = byte_example("hello " + std::to_string(i % 8) + ":", " hello back");
  }
  return std::make_shared<ExampleList>(std::move(examples));
}

}  // namespace

int main() {
  reprise::track_cpu_memory();  // before the first tensor: train() reports bytes
  const TemporaryFolder folder;
  const auto model = tiny_model();
  model->enable_checkpointing();
  SmoothedLabels objective(model, /*smoothing=*/0.1);
  reprise::TrainerOptions options;
  options.output = folder.path();
  options.batch_size = 4;
  options.accumulation = 2;
  options.epochs = 10;
  options.learning_rate = 2e-3;
  options.save_steps = 0;
  reprise::TrainingObserver observer;
  const auto summary = reprise::train({.objective = objective,
                                       .data = greetings(),
                                       .save_model = [](const std::filesystem::path&) {}},
                                      options,
                                      observer);
  const auto steps = reprise::MetricsFile::read(options.output / "metrics.jsonl");
  const double first = steps.front()["loss"], last = steps.back()["loss"];
  std::cout << summary.progress.step << " steps, smoothed loss " << first << " -> " << last << "\n";
  return last < first ? 0 : 1;
}
