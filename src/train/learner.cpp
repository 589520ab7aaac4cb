#include "train/learner.h"

#include "train/passes.h"

#include <reprise/autocast.h>
#include <reprise/model/lora.h>
#include <reprise/train/out_of_memory.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

namespace reprise {

Learner::Learner(std::string name,
                 Model& model,
                 const TrainerOptions& options,
                 int64_t total_steps,
                 const World& world)
    : name_(std::move(name)),
      model_(model),
      options_(options),
      world_(world),
      total_steps_(total_steps),
      schedule_(options.schedule),
      effect_(model),
      meter_(model.device()),
      optimizer_(Optimizer::make(trained_parameters(model), options.optimizer)) {
  schedule_.warmup_steps = warmup_count(options.warmup_steps, total_steps);
  if (options.ema_decay > 0) {
    average_ = std::make_unique<MovingAverage>(*optimizer_, options.ema_decay);
  }
  if (options.memory.is_set()) {
    budget_ = std::make_unique<StepBudget>(options.memory, name_, model, *optimizer_);
  }
}

StepOutcome Learner::step(int64_t step, const StepWork& work) {
  StepOutcome outcome;
  const double total_weight = world_.sum(work.total_weight);
  plan_step(work, total_weight);
  effect_.begin_step();
  meter_.begin_step({parameter_bytes(model_) + work.frozen_bytes, optimizer_->bytes()});
  explaining_memory([&] { update(step, work, total_weight, outcome); },
                    [&](const std::string& error) { return explain(error, step, work); });
  meter_.end_step();
  optimizer_->zero_grad();
  if (average_ != nullptr) {
    average_->update();
  }
  if (budget_ != nullptr) {
    outcome.budget = budget_->end_step();
    outcome.effect = effect_.end_step(static_cast<int64_t>(work.micro_batches), budget_->regions());
  } else {
    outcome.effect = effect_.end_step(static_cast<int64_t>(work.micro_batches));
  }
  return outcome;
}

std::pair<double, int64_t> Learner::rehearse(const StepWork& work) {
  using Clock = std::chrono::steady_clock;
  plan_step(work, work.total_weight);
  meter_.begin_step({parameter_bytes(model_) + work.frozen_bytes, optimizer_->bytes()});
  MetricSums ignored;
  const auto begun = Clock::now();
  try {
    run_micro_batches(work, work.total_weight, ignored).sum().item<double>();  // waits
  } catch (...) {
    optimizer_->zero_grad();
    budget_->give_up();
    throw;
  }
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
  optimizer_->zero_grad();
  return {ms, budget_->end_step().predicted_bytes};
}

// Before anything of the step is measured: what is not planned yet runs once more.
void Learner::plan_step(const StepWork& work, double total_weight) {
  if (budget_ == nullptr) {
    return;
  }
  std::vector<StepBudget::MicroBatch> micro_batches;
  for (size_t i = 0; i < work.micro_batches; ++i) {
    micro_batches.push_back({work.shape(i), [this, i, &work, total_weight] {
                               forward(i, work, StepContext{total_weight}).part.backward();
                             }});
  }
  budget_->begin_step(micro_batches);
}

void Learner::update(int64_t step,
                     const StepWork& work,
                     double total_weight,
                     StepOutcome& outcome) {
  const auto losses = run_micro_batches(work, total_weight, outcome.metrics);
  check_finite(losses, step, work);
  outcome.loss = world_.sum(losses.sum()).item<double>();
  sum_gradients();
  outcome.grad_norm =
      clip_grad_norm(optimizer_->parameters(), options_.max_grad_norm).item<double>();
  TORCH_CHECK(std::isfinite(outcome.grad_norm),
              "[train] step ",
              step + 1,
              ": the loss is finite, but the norm of its gradients is ",
              outcome.grad_norm,
              ". Lower --learning_rate, or compute in a wider type (--dtype float32).");
  outcome.learning_rate =
      options_.learning_rate * learning_rate_factor(schedule_, step, total_steps_);
  optimizer_->step(outcome.learning_rate);
}

// The parts of the loss, (micro-batches).
at::Tensor Learner::run_micro_batches(const StepWork& work,
                                      double total_weight,
                                      MetricSums& metrics) {
  const StepContext context{total_weight, &meter_};
  std::vector<at::Tensor> losses;
  for (micro_batch_ = 0; micro_batch_ < work.micro_batches; ++micro_batch_) {
    const auto part = forward_backward(micro_batch_, work, context);
    metrics.add(part.metrics);
    losses.push_back(part.part.detach());
  }
  return at::stack(losses);
}

BatchLoss Learner::forward(size_t index, const StepWork& work, const StepContext& context) {
  const AutocastScope autocast(model_.device().type(),
                               options_.autocast.value_or(at::kFloat),
                               options_.autocast.has_value());
  return work.loss(index, context);
}

BatchLoss Learner::forward_backward(size_t index,
                                    const StepWork& work,
                                    const StepContext& context) {
  meter_.begin_forward();
  std::optional<StepBudget::Use> plan;
  if (budget_ != nullptr) {
    plan.emplace(*budget_, index);
  }
  const BatchLoss result = forward(index, work, context);
  if (plan) {
    plan->end_forward();
  }
  meter_.end_loss();
  result.part.backward();
  if (plan) {
    plan->end_backward();
  }
  meter_.end_backward();
  return result;
}

// One wait for all micro-batches. The gradients are of no use then, but nothing was updated yet.
void Learner::check_finite(const at::Tensor& losses, int64_t step, const StepWork& work) const {
  const auto values = losses.to(at::kDouble).cpu();
  if (budget_ != nullptr && !values.isfinite().all().item<bool>()) {
    budget_->give_up();  // finding the row that is to blame is no part of the step
  }
  for (int64_t i = 0; i < values.numel(); ++i) {
    TORCH_CHECK(std::isfinite(values[i].item<double>()),
                "[train] step ",
                step + 1,
                ": ",
                work.not_finite(static_cast<size_t>(i)));
  }
}

// Parts of the loss were divided by the weight of all processes, so their gradients add up.
void Learner::sum_gradients() {
  if (world_.size() == 1) {
    return;
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, parameter] : optimizer_->parameters()) {
    if (auto gradient = parameter.grad(); gradient.defined()) {
      gradient.copy_(world_.sum(gradient));
    }
  }
}

// An allocator that fails says how much it wanted; this says who had the rest.
std::string Learner::explain(const std::string& error, int64_t step, const StepWork& work) {
  meter_.give_up();
  const auto shape = work.shape(std::min(micro_batch_, work.micro_batches - 1));
  const auto text = explain_out_of_memory(error,
                                          {meter_.classes(),
                                           step + 1,
                                           static_cast<int64_t>(work.micro_batches),
                                           shape.rows,
                                           shape.length},
                                          model_);
  return budget_ == nullptr ? text : text + "\n" + budget_->give_up();
}

void Learner::describe(const StepOutcome& outcome, Json& record) const {
  record["loss"] = outcome.loss;
  record["grad_norm"] = outcome.grad_norm;
  record["learning_rate"] = outcome.learning_rate;
  record["peak_bytes"] = meter_.peak_bytes();
  record["activation_bytes"] = meter_.activation_bytes();
  record["recompute_ms"] = outcome.effect.recompute_ms;
  record["regions_recomputed"] = outcome.effect.recomputed;
  if (outcome.effect.blocks.empty() || outcome.effect.bytes_dropped > 0) {
    record["estimated_activation_bytes"] = meter_.activation_bytes() + outcome.effect.bytes_dropped;
  }
  if (outcome.budget) {
    record["budget"] = outcome.budget->to_json();
  }
  outcome.metrics.write_to(record, world_);
  record["memory"] = meter_.classes().to_json();
}

}  // namespace reprise
