#include <reprise/train/prm.h>

#include "train/objectives/forward_passes.h"

#include <reprise/loss/head.h>
#include "loss/preference/process_reward.h"

#include <ATen/ATen.h>

#include <algorithm>
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

  double evaluation_weight(const Batch& batch) const override {
    return static_cast<double>(batch.rows.size());
  }

  BatchLoss loss(const Batch& batch, const StepContext& context) override {
    const auto hidden = trained_hidden(*model_, batch.main, context);
    const auto result = options_.convention == PrmConvention::StepEnds
                            ? process_reward_loss(model_->apply_head(hidden), batch.main.labels)
                            : placeholder_loss(hidden, batch.main);
    const auto steps = result.count.item<double>();
    return {result.loss / context.total_weight,
            {metric_of("accuracy", result.accuracy * steps, steps)}};
  }

 private:
  ProcessRewardResult placeholder_loss(const at::Tensor& hidden, const TokenBatch& batch) const {
    if (options_.reward_tokens.empty() && !batch.soft_labels.defined()) {
      return whole_vocabulary_loss(hidden, batch.labels);
    }
    const auto positions = batch.labels.ne(kIgnoredLabel);
    const auto logits =
        step_logits(hidden, model_->linear_head(), positions, options_.reward_tokens);
    if (batch.soft_labels.defined()) {
      return soft_process_reward_loss(logits, batch.soft_labels.masked_select(positions));
    }
    return process_reward_loss(
        logits,
        reward_token_classes(batch.labels.masked_select(positions), options_.reward_tokens));
  }

  // Chooses among all tokens, so logits are computed in chunks as for any language model.
  ProcessRewardResult whole_vocabulary_loss(const at::Tensor& hidden,
                                            const at::Tensor& labels) const {
    const auto values = linear_cross_entropy(hidden, model_->linear_head(), labels);
    const auto steps = static_cast<double>(std::max<int64_t>(values.tokens, 1));
    return {
        values.sum / steps, values.correct / steps, at::scalar_tensor(values.tokens, at::kLong)};
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
