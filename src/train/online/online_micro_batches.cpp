#include "train/online/online_micro_batches.h"

#include "train/objectives/forward_passes.h"
#include "train/online/online_options.h"

#include <ATen/ATen.h>

namespace reprise {

namespace {

std::string non_finite_message(const std::string& role, const std::string& option, size_t index) {
  return "the loss of the " + role + " in micro-batch " + std::to_string(index + 1) +
         " is not finite. Training stops; the last checkpoint is unchanged. Try a lower " + option +
         " or a wider `dtype`.";
}

PolicyStep step_totals(const OnlineOptions& options, const UpdateBatch& update, int64_t processes) {
  PolicyStep totals;
  totals.micro_batches = static_cast<double>(update.step_micro_batches);
  totals.tokens = update.tokens;
  totals.sequences = static_cast<double>(update.sequences);
  totals.generation_tokens = update.generation_tokens;
  totals.generation_micro_batches =
      static_cast<double>(generation_micro_batches(options) * processes);
  totals.max_completion_length = static_cast<double>(options.rollout.generate.max_new_tokens);
  return totals;
}

}  // namespace

BatchShape OnlineMicroBatches::shape(size_t index) const {
  const auto& batch = update_.micro_batches[index];
  auto shape = shape_of(batch.tokens);
  shape.sizes.push_back(batch.longest_completion);
  return shape;
}

int64_t OnlineMicroBatches::frozen_bytes() const {
  return job_.reference && !options_.offload_reference ? job_.reference->bytes() : 0;
}

PolicyMicroBatches::PolicyMicroBatches(const OnlineJob& job,
                                       const OnlineOptions& options,
                                       const UpdateBatch& update,
                                       const PretrainingBatches& pretraining,
                                       TrainingObjective* pretraining_objective,
                                       const World& world)
    : OnlineMicroBatches(job, options, update),
      pretraining_(pretraining),
      pretraining_objective_(pretraining_objective),
      totals_(step_totals(options, update, world.size())) {}

size_t PolicyMicroBatches::size() const {
  return OnlineMicroBatches::size() + pretraining_.batches.size();
}

BatchLoss PolicyMicroBatches::loss(size_t index, const StepContext& context) {
  return is_pretraining(index)
             ? pretraining_loss(pretraining_.batches[pretraining_index(index)], context)
             : policy_gradient_loss(update_.micro_batches[index], context);
}

BatchLoss PolicyMicroBatches::policy_gradient_loss(const ExperienceBatch& batch,
                                                   const StepContext& context) const {
  const auto values =
      token_logprobs(trained_hidden(*job_.policy, batch.tokens, context),
                     job_.policy->linear_head(),
                     batch.targets,
                     {.temperature = logprob_temperature(options_), .entropy = true});
  const auto entropy = batch.completion_values(values.entropy);
  const bool learns_entropy = options_.policy.entropy_coef != 0;
  const auto result = policy_loss({batch.completion_values(values.logprobs),
                                   batch.part.old_logprobs,
                                   batch.part.reference_logprobs,
                                   batch.part.sampling_logprobs,
                                   batch.part.advantages,
                                   batch.part.mask,
                                   learns_entropy ? entropy : entropy.detach()},
                                  totals_,
                                  options_.policy);
  return {result.part, result.metrics};
}

BatchLoss PolicyMicroBatches::pretraining_loss(const Batch& batch,
                                               const StepContext& context) const {
  const double total = pretraining_.total_weight;
  const auto result = pretraining_objective_->loss(batch, StepContext{total, context.meter});
  return {result.part * options_.pretraining_coef,
          {metric_of("ptx_loss",
                     result.part.detach() * total,
                     pretraining_objective_->weight(batch),
                     MetricMean::Pooled)}};
}

BatchShape PolicyMicroBatches::shape(size_t index) const {
  if (!is_pretraining(index)) {
    return OnlineMicroBatches::shape(index);
  }
  auto shape = shape_of(pretraining_.batches[pretraining_index(index)]);
  shape.structure += ", pretraining";
  return shape;
}

std::string PolicyMicroBatches::describe_non_finite(size_t index) const {
  return non_finite_message("policy", "`learning_rate`", index);
}

int64_t PolicyMicroBatches::frozen_bytes() const {
  const int64_t critic = job_.critic != nullptr ? parameter_bytes(*job_.critic) : 0;
  return OnlineMicroBatches::frozen_bytes() + critic;
}

bool PolicyMicroBatches::is_filler(size_t index) const {
  return is_pretraining(index) && pretraining_.is_filler[pretraining_index(index)];
}

BatchLoss CriticMicroBatches::loss(size_t index, const StepContext& context) {
  const auto& batch = update_.micro_batches[index];
  const auto hidden = trained_hidden(*job_.critic, batch.tokens, context);
  const auto values = job_.critic->apply_head(hidden).squeeze(-1).to(at::kFloat);
  const auto result = value_loss(
      {batch.completion_values(values), batch.part.values, batch.part.returns, batch.part.mask},
      update_.tokens,
      options_.value);
  return {result.part, result.metrics};
}

std::string CriticMicroBatches::describe_non_finite(size_t index) const {
  return non_finite_message("critic", "`critic_learning_rate`", index);
}

int64_t CriticMicroBatches::frozen_bytes() const {
  return OnlineMicroBatches::frozen_bytes() + parameter_bytes(*job_.policy);
}

}  // namespace reprise
