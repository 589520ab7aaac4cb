#include <reprise/train/sft.h>

#include "train/objectives/forward_passes.h"

#include <reprise/loss/head.h>

#include <ATen/ATen.h>

#include <utility>

namespace reprise {

namespace {

class Sft final : public TrainingObjective {
 public:
  Sft(std::shared_ptr<Model> model, SftLoss loss) : model_(std::move(model)), loss_(loss) {}

  Model& model() const override { return *model_; }

  double weight(const Batch& batch) const override {
    if (loss_ == SftLoss::Sum) {
      return static_cast<double>(batch.rows.size());
    }
    return trained_tokens(batch);
  }

  BatchLoss loss(const Batch& batch, const StepContext& context) override {
    const auto hidden = trained_hidden(*model_, batch.main, context);
    const auto values = linear_cross_entropy(
        hidden,
        model_->linear_head(),
        targets_of(batch.main),
        loss_ == SftLoss::Dft ? TokenWeighting::Probability : TokenWeighting::None);
    const auto tokens = static_cast<double>(values.tokens);
    return {values.sum / context.total_weight,
            {metric_of("entropy", values.entropy, tokens),
             metric_of("mean_token_accuracy", values.correct, tokens)}};
  }

 private:
  std::shared_ptr<Model> model_;
  SftLoss loss_;
};

}  // namespace

SftLoss parse_sft_loss(std::string_view name) {
  if (name == "nll" || name == "chunked_nll") {
    return SftLoss::Nll;
  }
  if (name == "sum") {
    return SftLoss::Sum;
  }
  TORCH_CHECK(name == "dft", "[sft] unknown loss \"", name, "\": expected nll, sum or dft.");
  return SftLoss::Dft;
}

std::unique_ptr<TrainingObjective> make_sft(std::shared_ptr<Model> model, SftLoss loss) {
  return std::make_unique<Sft>(std::move(model), loss);
}

}  // namespace reprise
