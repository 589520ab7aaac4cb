#include "train/online_update.h"

#include "train/evaluate.h"
#include "train/online_options.h"
#include "train/passes.h"

#include <reprise/train/sft.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>

namespace reprise {

namespace {

TrainerOptions critic_options(const OnlineOptions& options) {
  auto own = options.training;
  own.learning_rate = options.critic_learning_rate;
  own.ema_decay = 0;
  return own;
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

std::optional<StepOutcome> OnlineUpdate::step(int64_t step, const UpdateRows& rows, Json& record) {
  int64_t peak = 0;
  if (critic_ != nullptr) {
    step_critic(step, rows, record);
    peak = critic_->meter().peak_bytes();
  }
  std::optional<StepOutcome> outcome;
  if (step >= options_.critic_warmup_steps) {
    outcome = step_policy(step, rows, record);
    peak = std::max(peak, policy_.meter().peak_bytes());
  }
  record["update_peak_bytes"] = peak;
  return outcome;
}

void OnlineUpdate::move_optimizers(const at::Device& device) {
  if (!options_.offload_optimizer) {
    return;
  }
  policy_.optimizer().move_state(device);
  if (critic_ != nullptr) {
    critic_->optimizer().move_state(device);
  }
}

StepWork OnlineUpdate::work_of(const UpdateRows& rows, const std::string& role) const {
  StepWork work;
  work.micro_batches = rows.micro_batches.size();
  work.shape = [&rows](size_t i) {
    const auto& own = rows.micro_batches[i];
    auto shape = shape_of(own.tokens);
    shape.sizes.push_back(own.completion);
    return shape;
  };
  work.not_finite = [role](size_t i) {
    return "the loss of the " + role + " in micro-batch " + std::to_string(i + 1) +
           " is not finite. Training stops; the last checkpoint is as it was. A lower " +
           (role == "critic" ? "--critic_learning_rate" : "--learning_rate") +
           " or a wider --dtype help.";
  };
  const bool has_reference_here = job_.reference && !options_.offload_reference;
  work.frozen_bytes = has_reference_here ? job_.reference->bytes() : 0;
  return work;
}

PolicyStep OnlineUpdate::totals_of(const UpdateRows& rows) const {
  PolicyStep totals;
  totals.micro_batches = static_cast<double>(rows.step_micro_batches);
  totals.tokens = rows.tokens;
  totals.sequences = static_cast<double>(rows.sequences);
  totals.generation_tokens = rows.generation_tokens;
  totals.generation_micro_batches =
      static_cast<double>(generation_micro_batches(options_) * world_.size());
  totals.max_completion_length = static_cast<double>(options_.rollout.generate.max_new_tokens);
  return totals;
}

// Batches of the pretraining loss are micro-batches of their own behind those of the policy.
StepOutcome OnlineUpdate::step_policy(int64_t step, const UpdateRows& rows, Json& record) {
  auto work = work_of(rows, "policy");
  work.frozen_bytes += job_.critic != nullptr ? parameter_bytes(*job_.critic) : 0;
  const auto totals = totals_of(rows);
  const auto pretraining = pretraining_batches(step);
  work.micro_batches += pretraining.batches.size();
  work.shape = [&, of_rows = work.shape](size_t i) {
    if (i < rows.micro_batches.size()) {
      return of_rows(i);
    }
    auto shape = shape_of(pretraining.batches[i - rows.micro_batches.size()]);
    shape.structure += ", pretraining";
    return shape;
  };
  work.loss = [&](size_t i, const StepContext& context) {
    if (i < rows.micro_batches.size()) {
      return policy_part(rows.micro_batches[i], totals, context);
    }
    const auto& batch = pretraining.batches[i - rows.micro_batches.size()];
    const double total = pretraining.total_weight;
    const auto result = pretraining_->loss(batch, StepContext{total, context.meter});
    return BatchLoss{
        result.part * options_.pretraining_coef,
        {metric_of("ptx_loss", result.part.detach() * total, pretraining_->weight(batch))}};
  };
  work.is_filler = [&](size_t i) {
    return i >= rows.micro_batches.size() && pretraining.is_filler[i - rows.micro_batches.size()];
  };
  auto outcome = policy_.step(step, work);
  policy_.describe(outcome, record);
  return outcome;
}

BatchLoss OnlineUpdate::policy_part(const ExperienceRows& rows,
                                    const PolicyStep& step,
                                    const StepContext& context) const {
  const auto values =
      token_logprobs(trained_hidden(*job_.policy, rows.tokens, context),
                     job_.policy->linear_head(),
                     rows.targets,
                     {.temperature = logprob_temperature(options_), .entropy = true});
  const auto entropy = rows.of_completions(values.entropy);
  const bool learns_entropy = options_.policy.entropy_coef != 0;
  const auto result = policy_loss({rows.of_completions(values.logprobs),
                                   rows.part.old_logprobs,
                                   rows.part.reference_logprobs,
                                   rows.part.sampling_logprobs,
                                   rows.part.advantages,
                                   rows.part.mask,
                                   learns_entropy ? entropy : entropy.detach()},
                                  step,
                                  options_.policy);
  return {result.part, result.figures};
}

OnlineUpdate::PretrainingBatches OnlineUpdate::pretraining_batches(int64_t step) {
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

void OnlineUpdate::step_critic(int64_t step, const UpdateRows& rows, Json& record) {
  auto work = work_of(rows, "critic");
  work.frozen_bytes += parameter_bytes(*job_.policy);
  work.loss = [&](size_t i, const StepContext& context) {
    const auto& own = rows.micro_batches[i];
    const auto hidden = trained_hidden(*job_.critic, own.tokens, context);
    const auto values = job_.critic->apply_head(hidden).squeeze(-1).to(at::kFloat);
    const auto result =
        value_loss({own.of_completions(values), own.part.values, own.part.returns, own.part.mask},
                   rows.tokens,
                   options_.value);
    return BatchLoss{result.part, result.figures};
  };
  const auto outcome = critic_->step(step, work);
  Json figures = Json::object();
  critic_->describe(outcome, figures);
  for (const auto& [name, value] : figures.items()) {
    record["critic/" + name] = value;
  }
}

}  // namespace reprise
