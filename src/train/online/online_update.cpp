#include "train/online/online_update.h"

#include "train/loop/collate_rows.h"

#include <reprise/train/sft.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace reprise {

namespace {

TrainerOptions critic_options(const OnlineOptions& options) {
  auto training = options.training;
  training.learning_rate = options.critic_learning_rate;
  training.ema_decay = 0;
  return training;
}

}  // namespace

OnlineUpdate::OnlineUpdate(const OnlineJob& job,
                           const OnlineOptions& options,
                           int64_t total_steps,
                           const World& world)
    : job_(job),
      options_(options),
      world_(world),
      critic_options_(critic_options(options)),
      policy_("", *job.policy, options.training, total_steps, world) {
  if (job.critic != nullptr) {
    critic_ = std::make_unique<Learner>("critic", *job.critic, critic_options_, total_steps, world);
  }
  if (job.pretraining != nullptr) {
    const auto& training = options.training;
    pretraining_ = make_sft(job.policy);
    const BatchPlan::Sizes sizes{job.pretraining->size(),
                                 training.batch_size,
                                 training.accumulation,
                                 world.rank(),
                                 world.size()};
    pretraining_plan_ = std::make_unique<BatchPlan>(sizes, training.seed, training.shuffle);
  }
}

std::optional<StepOutcome> OnlineUpdate::step(int64_t step,
                                              const UpdateBatch& batch,
                                              Json& record) {
  int64_t peak = 0;
  planning_ms_ = 0;
  if (critic_ != nullptr) {
    planning_ms_ = step_critic(step, batch, record);
    peak = critic_->meter().peak_bytes();
  }
  std::optional<StepOutcome> outcome;
  if (step >= options_.critic_warmup_steps) {
    outcome = step_policy(step, batch, record);
    planning_ms_ += outcome->budget ? outcome->budget->planning_in_step_ms : 0;
    peak = std::max(peak, policy_.meter().peak_bytes());
  }
  record["update_peak_bytes"] = peak;
  return outcome;
}

StepOutcome OnlineUpdate::step_policy(int64_t step, const UpdateBatch& batch, Json& record) {
  const auto pretraining = pretraining_batches(step);
  PolicyMicroBatches micro_batches(job_, options_, batch, pretraining, pretraining_.get(), world_);
  auto outcome = policy_.step(step, micro_batches);
  policy_.write_metrics(outcome, record);
  return outcome;
}

double OnlineUpdate::step_critic(int64_t step, const UpdateBatch& batch, Json& record) {
  CriticMicroBatches micro_batches(job_, options_, batch);
  const auto outcome = critic_->step(step, micro_batches);
  Json metrics = Json::object();
  critic_->write_metrics(outcome, metrics);
  for (const auto& [name, value] : metrics.items()) {
    record["critic/" + name] = value;
  }
  return outcome.budget ? outcome.budget->planning_in_step_ms : 0;
}

PretrainingBatches OnlineUpdate::pretraining_batches(int64_t step) {
  PretrainingBatches all;
  if (pretraining_ == nullptr) {
    return all;
  }
  for (const auto& rows : pretraining_plan_->micro_batches(step)) {
    all.batches.push_back(
        to_device(collate_examples(*job_.pretraining, rows.examples, options_.training.collate),
                  job_.policy->device()));
    all.is_filler.push_back(rows.is_filler);
    all.total_weight += rows.is_filler ? 0 : pretraining_->weight(all.batches.back());
  }
  all.total_weight = world_.sum(all.total_weight, "the weight of ptx rows");
  TORCH_CHECK(all.total_weight > 0,
              "[online] step ",
              step + 1,
              ": no token of its ptx rows is trained on.");
  return all;
}

}  // namespace reprise
