#include <reprise/train/kd.h>

#include "model/eval_scope.h"
#include "train/objectives/forward_passes.h"

#include "model/without_checkpointing.h"

#include <ATen/ATen.h>

#include <utility>

namespace reprise {

namespace {

class Kd final : public TrainingObjective {
 public:
  Kd(std::shared_ptr<Model> student, std::shared_ptr<Model> teacher, const KdOptions& options)
      : model_(std::move(student)), teacher_(std::move(teacher)), options_(options) {
    TORCH_CHECK(options.coefficient > 0 && options.coefficient <= 1,
                "[kd] the share of the divergence must be above 0 and at most 1, got ",
                options.coefficient);
    teacher_->eval();
    for (auto& parameter : teacher_->parameters()) {
      parameter.requires_grad_(false);
    }
  }

  Model& model() const override { return *model_; }

  double weight(const Batch& batch) const override { return trained_tokens(batch); }

  BatchLoss loss(const Batch& batch, const StepContext& context) override {
    const auto targets = targets_of(batch.main);
    const at::Device device = model_->device();
    move_teacher(device);
    at::Tensor teacher_hidden;
    {
      const EvalScope no_dropout(*teacher_);  // not frozen_pass(): its head is needed below
      without_checkpointing(
          "the teacher", [&] { teacher_hidden = teacher_->hidden_states(input_of(batch.main)); });
    }
    const auto hidden = trained_hidden(*model_, batch.main, context);
    const auto result = linear_distillation(
        hidden,
        model_->linear_head(),
        teacher_hidden,
        teacher_->linear_head(),
        targets,
        {.divergence = options_.divergence, .coefficient = options_.coefficient});
    if (teacher_->sharded_parameters() != nullptr) {
      teacher_->sharded_parameters()->settle();
    }
    const auto tokens = weight(batch);
    BatchLoss out;
    out.part = result.sum / context.total_weight;
    out.metrics = {metric_of("kd_loss", result.divergence, tokens, MetricMean::Pooled)};
    if (options_.coefficient < 1) {
      out.metrics.push_back(
          metric_of("gpt_loss", result.cross_entropy, tokens, MetricMean::Pooled));
      out.metrics.push_back(metric_of("entropy", result.entropy, tokens));
      out.metrics.push_back(metric_of("mean_token_accuracy", result.correct, tokens));
    }
    if (options_.offload_teacher) {  // backward does not need it
      move_teacher(at::kCPU);
    }
    return out;
  }

  int64_t frozen_bytes() const override { return parameter_bytes(*teacher_); }

 private:
  void move_teacher(const at::Device& device) {
    if (teacher_->device() != device) {
      teacher_->to(device);
    }
  }

  std::shared_ptr<Model> model_;
  std::shared_ptr<Model> teacher_;
  KdOptions options_;
};

}  // namespace

std::unique_ptr<TrainingObjective> make_kd(std::shared_ptr<Model> student,
                                           std::shared_ptr<Model> teacher,
                                           const KdOptions& options) {
  return std::make_unique<Kd>(std::move(student), std::move(teacher), options);
}

}  // namespace reprise
