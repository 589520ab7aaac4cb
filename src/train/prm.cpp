#include <reprise/train/prm.h>

#include "train/passes.h"

#include <reprise/loss/process_reward.h>

#include <ATen/ATen.h>

#include <utility>

namespace reprise {

namespace {

class Prm final : public TrainingObjective {
 public:
  Prm(std::shared_ptr<Model> model, PrmOptions options)
      : model_(std::move(model)), options_(std::move(options)) {
    const bool is_classifier = options_.convention == PrmConvention::StepEnds;
    TORCH_CHECK(model_->head() == (is_classifier ? HeadKind::TokenClasses : HeadKind::CausalLm),
                "[prm] expected a model with ",
                is_classifier ? "a token-classification head for labels at step ends."
                              : "a language-model head for labels at placeholders.");
  }

  Model& model() const override { return *model_; }

  BatchLoss loss(const Batch& batch, const StepContext& context) override {
    const auto hidden = trained_hidden(*model_, batch.main, context);
    const auto result = options_.convention == PrmConvention::StepEnds
                            ? process_reward_loss(model_->apply_head(hidden), batch.main.labels)
                            : placeholder_loss(hidden, batch.main);
    const auto steps = result.count.item<double>();
    return {result.loss / context.total_weight,
            {{"accuracy", result.accuracy.item<double>() * steps, steps}}};
  }

 private:
  ProcessRewardResult placeholder_loss(const at::Tensor& hidden, const TokenBatch& batch) const {
    const auto head = model_->linear_head();
    if (batch.soft_labels.defined()) {
      const auto places = batch.labels.ne(kIgnoredLabel);
      return soft_process_reward_loss(step_logits(hidden, head, places, options_.reward_tokens),
                                      batch.soft_labels.masked_select(places));
    }
    const auto places = batch.labels.ne(kIgnoredLabel);
    const auto labels = batch.labels.masked_select(places);
    return process_reward_loss(step_logits(hidden, head, places, options_.reward_tokens),
                               options_.reward_tokens.empty()
                                   ? labels
                                   : reward_token_classes(labels, options_.reward_tokens));
  }

  std::shared_ptr<Model> model_;
  PrmOptions options_;
};

}  // namespace

std::unique_ptr<TrainingObjective> make_prm(std::shared_ptr<Model> model,
                                            const PrmOptions& options) {
  return std::make_unique<Prm>(std::move(model), options);
}

}  // namespace reprise
