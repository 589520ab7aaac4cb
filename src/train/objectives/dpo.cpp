#include <reprise/train/dpo.h>

#include "train/objectives/forward_passes.h"

#include <ATen/ATen.h>

#include <utility>

namespace reprise {

namespace {

class Dpo final : public ReferencedObjective {
 public:
  Dpo(std::shared_ptr<Model> model,
      std::optional<Reference> reference,
      const PreferenceOptions& options)
      : ReferencedObjective(std::move(reference)), model_(std::move(model)), options_(options) {
    validate(options);
    TORCH_CHECK(!reference_ || needs_reference(options), "[dpo] this loss takes no reference.");
  }

  Model& model() const override { return *model_; }

  at::Tensor reference_logps(const Batch& batch) const override {
    const auto targets = targets_of(batch.main);
    const auto logps = reduce_pairs(
        {reference_->logprobs(batch.main, targets).logprobs, targets.tokens.ne(kIgnoredLabel)},
        reference_options());
    return at::stack({logps.chosen, logps.rejected}, 1);
  }

  BatchLoss loss(const Batch& batch, const StepContext& context) override {
    // Before the policy's pass, so that the two never hold activations at the same time.
    PairLogps reference;
    if (needs_reference(options_)) {
      const auto columns = logps_of_reference(batch, context);
      reference.chosen = columns.select(1, 0);
      reference.rejected = columns.select(1, 1);
    }
    const auto responses = targets_of(batch.main);
    const bool with_prompt = needs_prompt(options_);
    const auto targets = with_prompt ? attended_targets(batch.main) : responses;
    TokenRequests requests;
    requests.entropy = true;
    requests.top1 = true;
    requests.mean_logit = true;
    requests.log_sum_p2 = needs_log_sum_p2(options_);
    const auto hidden = trained_hidden(*model_, batch.main, context);
    const auto values = token_logprobs(hidden, model_->linear_head(), targets, requests);
    const auto mask = responses.tokens.ne(kIgnoredLabel);
    const auto policy =
        reduce_pairs({values.logprobs,
                      mask,
                      values.log_sum_p2,
                      with_prompt ? targets.tokens.ne(kIgnoredLabel) : at::Tensor()},
                     options_);
    const auto result = preference_loss(policy, reference, options_);
    BatchLoss out{result.loss / context.total_weight, metrics_of(result, policy)};
    add_token_metrics(values, mask, out.metrics);
    return out;
  }

 private:
  // Only the options that affect how token log-probabilities are summed.
  PreferenceOptions reference_options() const {
    PreferenceOptions options;
    options.ld_alpha = options_.ld_alpha;
    return options;
  }

  static Targets attended_targets(const TokenBatch& batch) {
    return targets_of(batch.input_ids.masked_fill(batch.attention_mask.eq(0), kIgnoredLabel));
  }

  // Metrics of the response tokens. Accuracy is over chosen ones only; rejected ones are not
  // targets.
  static void add_token_metrics(const TokenValues& values,
                                const at::Tensor& mask,
                                std::vector<Metric>& metrics) {
    const auto masks = mask.chunk(2);
    const auto logits = values.mean_logit.chunk(2);
    metrics.push_back(token_metric("logits/chosen", logits[0], masks[0]));
    metrics.push_back(token_metric("logits/rejected", logits[1], masks[1]));
    metrics.push_back(token_metric("entropy", values.entropy, mask));
    metrics.push_back(token_metric("mean_token_accuracy", values.top1.chunk(2)[0], masks[0]));
  }

  std::vector<Metric> metrics_of(const PreferenceResult& result, const PairLogps& policy) const {
    std::vector<Metric> metrics{
        mean_metric("rewards/chosen", result.chosen_rewards),
        mean_metric("rewards/rejected", result.rejected_rewards),
        mean_metric("rewards/accuracies", result.chosen_rewards.gt(result.rejected_rewards)),
        mean_metric("rewards/margins", result.chosen_rewards - result.rejected_rewards),
        mean_metric("logps/chosen", policy.chosen),
        mean_metric("logps/rejected", policy.rejected)};
    if (options_.losses.size() > 1) {
      for (size_t i = 0; i < result.losses.size(); ++i) {
        auto metric = mean_metric("", result.losses[i]);
        metric.name = "loss/" + std::string(name_of(options_.losses[i].first));
        metrics.push_back(std::move(metric));
      }
    }
    if (result.nll.defined()) {
      metrics.push_back(mean_metric("nll_loss", result.nll));
    }
    if (result.log_odds.defined()) {
      metrics.push_back(mean_metric("log_odds", result.log_odds));
    }
    return metrics;
  }

  std::shared_ptr<Model> model_;
  PreferenceOptions options_;
};

}  // namespace

std::unique_ptr<ReferencedObjective> make_dpo(std::shared_ptr<Model> model,
                                              std::optional<Reference> reference,
                                              const PreferenceOptions& options) {
  return std::make_unique<Dpo>(std::move(model), std::move(reference), options);
}

}  // namespace reprise
