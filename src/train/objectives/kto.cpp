#include <reprise/train/kto.h>

#include "train/objectives/forward_passes.h"

#include <ATen/ATen.h>

#include <utility>

namespace reprise {

namespace {

class Kto final : public ReferencedObjective {
 public:
  Kto(std::shared_ptr<Model> model,
      std::optional<Reference> reference,
      const UnpairedOptions& options,
      const World& world)
      : ReferencedObjective(std::move(reference)),
        model_(std::move(model)),
        options_(options),
        world_(world) {
    validate(options);
  }

  Model& model() const override { return *model_; }

  at::Tensor reference_logps(const Batch& batch) const override {
    const auto logps = [&](const TokenBatch& rows) {
      return reference_->logprobs(rows, targets_of(rows)).logprobs.sum(1);
    };
    const auto main = logps(batch.main);
    return at::stack({main, needs_kl(options_) ? logps(batch.mismatched) : at::zeros_like(main)},
                     1);
  }

  BatchLoss loss(const Batch& batch, const StepContext& context) override {
    const auto reference = logps_of_reference(batch, context);
    const auto kl =
        needs_kl(options_) ? divergence(batch, reference.select(1, 1), context) : at::Tensor();
    const auto targets = targets_of(batch.main);
    TokenRequests requests;
    requests.entropy = true;
    requests.top1 = true;
    requests.mean_logit = true;
    const auto hidden = trained_hidden(*model_, batch.main, context);
    const auto values = token_logprobs(hidden, model_->linear_head(), targets, requests);
    const auto logps = values.logprobs.sum(1);
    const auto result = unpaired_loss(logps, reference.select(1, 0), batch.desirable, kl, options_);
    BatchLoss out{result.loss / context.total_weight, metrics_of(batch, result, logps.detach())};
    add_token_metrics(batch, values, targets.tokens.ne(kIgnoredLabel), out.metrics);
    return out;
  }

 private:
  // KL between policy and reference on mismatched responses, from a pass without gradients. In
  // training it is a mean over the rows that all processes have at the same time; in an evaluation
  // over the batch, so that it does not depend on the number of processes.
  at::Tensor divergence(const Batch& batch,
                        const at::Tensor& reference,
                        const StepContext& context) const {
    const auto& rows = batch.mismatched;
    const auto values =
        frozen_logprobs("the KL pass", *model_, rows, targets_of(rows), AdapterUse::Trained);
    const auto kl = mismatched_kl(values.logprobs.sum(1), reference);
    if (!context.allows_collectives || world_.size() == 1) {
      return kl;
    }
    const double counted = context.is_filler ? 0 : static_cast<double>(batch.rows.size());
    const auto all =
        world_.sum(at::stack({kl * counted, kl.new_full({}, counted)}), "the KL of a micro-batch");
    return all[0] / all[1];
  }

  static void add_token_metrics(const Batch& batch,
                                const TokenValues& values,
                                const at::Tensor& mask,
                                std::vector<Metric>& metrics) {
    const auto desirable = mask.logical_and(batch.desirable.unsqueeze(1));
    metrics.push_back(token_metric("logits/chosen", values.mean_logit, desirable));
    metrics.push_back(
        token_metric("logits/rejected", values.mean_logit, mask.logical_xor(desirable)));
    metrics.push_back(token_metric("entropy", values.entropy, mask));
    metrics.push_back(token_metric("mean_token_accuracy", values.top1, mask));
  }

  static std::vector<Metric> metrics_of(const Batch& batch,
                                        const UnpairedResult& result,
                                        const at::Tensor& logps) {
    std::vector<Metric> metrics{
        mean_metric("rewards/chosen", result.desirable_rewards),
        mean_metric("rewards/rejected", result.undesirable_rewards),
        mean_metric("logps/chosen", logps.masked_select(batch.desirable)),
        mean_metric("logps/rejected", logps.masked_select(batch.desirable.logical_not()))};
    if (result.desirable_rewards.numel() > 0 && result.undesirable_rewards.numel() > 0) {
      metrics.push_back(mean_metric(
          "rewards/margins", result.desirable_rewards.mean() - result.undesirable_rewards.mean()));
    }
    if (result.kl.defined()) {
      metrics.push_back(mean_metric("kl", result.kl));
    }
    return metrics;
  }

  std::shared_ptr<Model> model_;
  UnpairedOptions options_;
  const World& world_;
};

}  // namespace

std::unique_ptr<ReferencedObjective> make_kto(std::shared_ptr<Model> model,
                                              std::optional<Reference> reference,
                                              const UnpairedOptions& options,
                                              const World& world) {
  return std::make_unique<Kto>(std::move(model), std::move(reference), options, world);
}

}  // namespace reprise
