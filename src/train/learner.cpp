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

namespace {

std::unique_ptr<Optimizer> make_optimizer(const Model& model, const OptimizerOptions& options) {
  const auto* spread = spread_of(model);
  return spread == nullptr ? Optimizer::make(trained_parameters(model), options)
                           : Optimizer::make(spread->trained(), options);
}

}  // namespace

Learner::Learner(std::string name,
                 Model& model,
                 const TrainerOptions& options,
                 int64_t total_steps,
                 const World& world)
    : name_(std::move(name)),
      model_(model),
      spread_(spread_of(model)),
      options_(options),
      world_(world),
      total_steps_(total_steps),
      schedule_(options.schedule),
      effect_(model),
      meter_(model.device()),
      optimizer_(make_optimizer(model, options.optimizer)) {
  TORCH_CHECK(world.size() == 1 || spread_ != nullptr,
              "[train] in a world of ",
              world.size(),
              " processes a model must be spread over them (parallel/spread.h) before it is "
              "trained.");
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
  const double total_weight = world_.sum(work.total_weight, "the weight of a step");
  TORCH_CHECK(total_weight > 0, "[train] step ", step + 1, ": no token of its rows is trained on.");
  plan_step(work, total_weight);
  effect_.begin_step();
  meter_.begin_step({resident_bytes(work), optimizer_->bytes()});
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
  meter_.begin_step({resident_bytes(work), optimizer_->bytes()});
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
  outcome.loss = world_.sum(losses.sum(at::kDouble), "the loss").item<double>();
  if (!std::isfinite(outcome.loss)) {
    agree_on_finite(losses, step, work);
  }
  outcome.grad_norm = clip_gradients();
  TORCH_CHECK(std::isfinite(outcome.grad_norm),
              "[train] step ",
              step + 1,
              ": the loss is finite, but the norm of its gradients is ",
              outcome.grad_norm,
              ". Lower --learning_rate, or compute in a wider type (--dtype float32).");
  outcome.learning_rate =
      options_.learning_rate * learning_rate_factor(schedule_, step, total_steps_);
  optimizer_->step(outcome.learning_rate);
  if (spread_ != nullptr) {
    spread_->after_update();
  }
}

double Learner::clip_gradients() const {
  const auto& parameters = optimizer_->parameters();
  const auto norm = spread_ != nullptr && spread_->is_sharded()
                        ? clip_grad_norm(parameters, options_.max_grad_norm, world_)
                        : clip_grad_norm(parameters, options_.max_grad_norm);
  return norm.item<double>();
}

int64_t Learner::resident_bytes(const StepWork& work) const {
  return parameter_bytes(model_) + work.frozen_bytes;
}

// The parts of the loss, (micro-batches).
at::Tensor Learner::run_micro_batches(const StepWork& work,
                                      double total_weight,
                                      MetricSums& metrics) {
  const StepContext context{total_weight, &meter_};
  std::vector<at::Tensor> losses;
  for (micro_batch_ = 0; micro_batch_ < work.micro_batches; ++micro_batch_) {
    const auto part = forward_backward(micro_batch_, work, context);
    if (work.is_filler == nullptr || !work.is_filler(micro_batch_)) {
      metrics.add(part.metrics);
    }
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
  if (spread_ != nullptr) {
    spread_->begin_micro_batch(/*is_last=*/index + 1 == work.micro_batches);
  }
  BatchLoss result = forward(index, work, context);
  if (work.is_filler != nullptr && work.is_filler(index)) {
    result.part = result.part * 0;
  }
  if (plan) {
    plan->end_forward();
  }
  meter_.end_loss();
  result.part.backward();
  if (plan) {
    plan->end_backward();
  }
  if (spread_ != nullptr) {
    spread_->end_backward();
  }
  meter_.end_backward();
  return result;
}

// Of the loss of all processes. Looking for the row that is to blame, a process makes passes that
// the others do not make.
void Learner::agree_on_finite(const at::Tensor& losses, int64_t step, const StepWork& work) const {
  const HeldParameters held(model_);
  world_.together("looking for a loss that is not finite",
                  [&] { check_finite(losses, step, work); });
  TORCH_CHECK(false, "[train] step ", step + 1, ": the sum of its finite losses is not finite.");
}

// The gradients are of no use then, but nothing was updated yet.
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
  const auto most = [&](int64_t bytes) {
    return static_cast<int64_t>(world_.max(static_cast<double>(bytes), "the memory used"));
  };
  record["loss"] = outcome.loss;
  record["grad_norm"] = outcome.grad_norm;
  record["learning_rate"] = outcome.learning_rate;
  record["peak_bytes"] = most(meter_.peak_bytes());
  record["activation_bytes"] = most(meter_.activation_bytes());
  record["recompute_ms"] = outcome.effect.recompute_ms;
  record["regions_recomputed"] = outcome.effect.recomputed;
  const auto without = most(meter_.activation_bytes() + outcome.effect.bytes_dropped);
  if (outcome.effect.blocks.empty() || outcome.effect.bytes_dropped > 0) {
    record["estimated_activation_bytes"] = without;
  }
  if (outcome.budget) {
    record["budget"] = outcome.budget->to_json();
  }
  outcome.metrics.write_to(record, world_);
  record["memory"] = meter_.classes().to_json();
}

}  // namespace reprise
