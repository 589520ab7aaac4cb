#include "train/loop/learner.h"

#include "memory/host_memory.h"
#include "optim/host_gradients.h"
#include "train/budget/out_of_memory.h"
#include "train/objectives/forward_passes.h"

#include <reprise/autocast.h>
#include <reprise/model/lora.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

namespace reprise {

namespace {

std::unique_ptr<Optimizer> make_optimizer(const Model& model, const OptimizerOptions& options) {
  const auto* sharded = sharded_model_of(model);
  // Checked here and not by parts, so that no process waits for one that has only whole ones.
  const bool is_cut = sharded != nullptr && sharded->is_sharded() && sharded->world().size() > 1;
  TORCH_CHECK(!is_cut || !updates_whole_parameters(options.kind),
              "[train] ",
              name_of(options.kind),
              " updates whole parameters, and under ",
              name_of(sharded->strategy()),
              " a process has parts of them: use ddp, or adamw_8bit.");
  TORCH_CHECK(sharded == nullptr || !options.host.gradients,
              "[train] `gradient_offload` is for a process that is not part of a world: gradients "
              "are summed over processes on the device.");
  return sharded == nullptr ? Optimizer::make(trained_parameters(model), options)
                            : Optimizer::make(sharded->trained(), options);
}

}  // namespace

Learner::Learner(std::string name,
                 Model& model,
                 const TrainerOptions& options,
                 int64_t total_steps,
                 const World& world)
    : name_(std::move(name)),
      model_(model),
      sharded_(sharded_model_of(model)),
      options_(options),
      world_(world),
      total_steps_(total_steps),
      schedule_(options.schedule),
      effect_(model),
      meter_(model.device()),
      host_limit_(options.memory.host_bytes),
      optimizer_(make_optimizer(model, first_placement())) {
  TORCH_CHECK(world.size() == 1 || sharded_ != nullptr,
              "[train] in a world of ",
              world.size(),
              " processes a model must be sharded over them (parallel/shard.h) before it is "
              "trained.");
  schedule_.warmup_steps = warmup_count(options.warmup_steps, total_steps);
  if (options.ema_decay > 0) {
    average_ = std::make_unique<MovingAverage>(*optimizer_, options.ema_decay);
  }
  for (const auto& named : optimizer_->parameters()) {
    trained_.push_back(named.second);
  }
  if (options.memory.is_set()) {
    budget_ = std::make_unique<StepBudget>(options.memory, name_, model, *optimizer_);
  }
}

StepOutcome Learner::step(int64_t step, MicroBatches& micro_batches) {
  StepOutcome outcome;
  const double total_weight = world_.sum(micro_batches.total_weight(), "the weight of a step");
  TORCH_CHECK(total_weight > 0, "[train] step ", step + 1, ": no token of its rows is trained on.");
  plan_step(micro_batches, total_weight);
  effect_.begin_step();
  meter_.begin_step({resident_bytes(micro_batches), optimizer_bytes()});
  moved_before_ = optimizer_->moved_bytes();
  try {
    update(step, micro_batches, total_weight, outcome);
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) {
      throw;
    }
    TORCH_CHECK(false, explain_memory(error, step, micro_batches));
  }
  meter_.end_step();
  if (meter_.peak_bytes() > most_.total()) {
    most_ = meter_.classes();
  }
  optimizer_->zero_grad();
  if (average_ != nullptr) {
    average_->update();
  }
  const auto count = static_cast<int64_t>(micro_batches.size());
  if (budget_ != nullptr) {
    outcome.budget = budget_->end_step();
    outcome.effect = effect_.end_step(count, budget_->regions());
  } else {
    outcome.effect = effect_.end_step(count);
  }
  outcome.effect.bytes_dropped = plain_bytes_ - meter_.activation_bytes();
  outcome.effect.activation_peak_bytes = meter_.activation_peak_bytes();
  outcome.effect.planning_ms = outcome.budget ? outcome.budget->planning_ms : 0;
  return outcome;
}

StepTrial Learner::trial_step(MicroBatches& micro_batches) {
  using Clock = std::chrono::steady_clock;
  const double total_weight = micro_batches.total_weight();
  plan_step(micro_batches, total_weight);
  meter_.begin_step({resident_bytes(micro_batches), optimizer_bytes()});
  MetricSums ignored;
  const auto start = Clock::now();
  try {
    // item() waits for the device.
    run_micro_batches(micro_batches, total_weight, ignored).sum().item<double>();
  } catch (...) {
    optimizer_->zero_grad();
    budget_->give_up();
    throw;
  }
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  optimizer_->zero_grad();
  return {ms, budget_->end_step().predicted_bytes};
}

void Learner::update(int64_t step,
                     MicroBatches& micro_batches,
                     double total_weight,
                     StepOutcome& outcome) {
  const auto losses = run_micro_batches(micro_batches, total_weight, outcome.metrics);
  outcome.loss = world_.sum(losses.sum(at::kDouble), "the loss").item<double>();
  if (!std::isfinite(outcome.loss)) {
    report_non_finite(losses, step, micro_batches);  // nothing was updated yet
  }
  outcome.grad_norm = clip_gradients();
  TORCH_CHECK(std::isfinite(outcome.grad_norm),
              "[train] step ",
              step + 1,
              ": the loss is finite, but the norm of its gradients is ",
              outcome.grad_norm,
              ". Lower `learning_rate`, or compute in a wider type (`dtype` float32).");
  outcome.learning_rate =
      options_.learning_rate * learning_rate_factor(schedule_, step, total_steps_);
  if (options_.optimizer.relative_step) {
    outcome.learning_rate = relative_step_size(options_.optimizer, step + 1);
  }
  optimizer_->step(outcome.learning_rate);
  if (sharded_ != nullptr) {
    sharded_->after_update();
  }
}

double Learner::clip_gradients() const {
  const auto& parameters = optimizer_->parameters();
  const auto norm = sharded_ != nullptr && sharded_->is_sharded()
                        ? clip_grad_norm(parameters, options_.max_grad_norm, world_)
                        : optimizer_->clip(options_.max_grad_norm);
  return norm.item<double>();
}

int64_t Learner::optimizer_bytes() const {
  return optimizer_->bytes() - optimizer_->host_bytes();
}

int64_t Learner::resident_bytes(const MicroBatches& micro_batches) const {
  return parameter_bytes(model_) + micro_batches.frozen_bytes();
}

// Returns the loss of each micro-batch, a vector.
at::Tensor Learner::run_micro_batches(MicroBatches& micro_batches,
                                      double total_weight,
                                      MetricSums& metrics) {
  const StepContext context{total_weight, &meter_};
  plain_bytes_ = 0;
  std::vector<at::Tensor> losses;
  for (micro_batch_ = 0; micro_batch_ < micro_batches.size(); ++micro_batch_) {
    const auto part = forward_backward(micro_batch_, micro_batches, context);
    metrics.add(micro_batches.is_filler(micro_batch_) ? std::vector<Metric>() : part.metrics);
    losses.push_back(part.part.detach());
  }
  return at::stack(losses);
}

BatchLoss Learner::forward(size_t index, MicroBatches& micro_batches, const StepContext& context) {
  const AutocastScope autocast(model_.device().type(),
                               options_.autocast.value_or(at::kFloat),
                               options_.autocast.has_value());
  return micro_batches.loss(index, context);
}

BatchLoss Learner::forward_backward(size_t index,
                                    MicroBatches& micro_batches,
                                    const StepContext& context) {
  try {
    return measured(index, micro_batches, context);
  } catch (...) {
    meter_.give_up();
    throw;
  }
}

BatchLoss Learner::measured(size_t index, MicroBatches& micro_batches, const StepContext& context) {
  const auto on_gradient = [this](int64_t bytes) { meter_.note_gradient(bytes); };
  const int64_t dropped_before = bytes_dropped(checkpoint_stats().total);
  meter_.begin_forward();
  std::optional<StepBudget::Use> plan;
  std::optional<planning::GradientHooks> hooks;
  if (budget_ != nullptr) {
    plan.emplace(*budget_, index, on_gradient);
  } else {
    hooks.emplace(model_.device(), planning::unwatched(trained_), on_gradient);
  }
  if (sharded_ != nullptr) {
    sharded_->begin_micro_batch(/*is_last=*/index + 1 == micro_batches.size());
  }
  BatchLoss result = forward(index, micro_batches, context);
  if (micro_batches.is_filler(index)) {
    result.part = result.part * 0;
  }
  if (plan) {
    plan->end_forward();
  }
  meter_.end_loss();
  plain_bytes_ = std::max(
      plain_bytes_,
      meter_.latest_activation_bytes() + bytes_dropped(checkpoint_stats().total) - dropped_before);
  result.part.backward();
  if (auto* gradients = optimizer_->host_gradients()) {
    gradients->end_backward();
  }
  if (sharded_ != nullptr) {
    sharded_->end_backward();
  }
  if (plan) {
    plan->end_backward();
  }
  hooks.reset();
  meter_.end_backward();
  return result;
}

// The bytes by class of the process with the largest peak, so that they add up to `peak_bytes`.
Json Learner::largest_memory() const {
  Json largest = meter_.classes().to_json();
  if (world_.size() == 1) {
    return largest;
  }
  const auto total = [](const Json& classes) {
    int64_t sum = 0;
    for (const Json& bytes : classes) {
      sum += bytes.get<int64_t>();
    }
    return sum;
  };
  const auto bytes = Json::to_msgpack(largest);
  for (const auto& theirs :
       world_.all_gather(std::string(bytes.begin(), bytes.end()), "the memory used")) {
    auto classes = Json::from_msgpack(theirs);
    if (total(classes) > total(largest)) {
      largest = std::move(classes);
    }
  }
  return largest;
}

void Learner::write_metrics(const StepOutcome& outcome, Json& record) const {
  const auto most = [&](int64_t bytes) {
    return static_cast<int64_t>(world_.max(static_cast<double>(bytes), "the memory used"));
  };
  record["loss"] = outcome.loss;
  record["grad_norm"] = outcome.grad_norm;
  record["learning_rate"] = outcome.learning_rate;
  record["peak_bytes"] = most(meter_.peak_bytes());
  record["activation_bytes"] = most(meter_.activation_bytes());
  record["activation_peak_bytes"] = most(meter_.activation_peak_bytes());
  record["recompute_ms"] = outcome.effect.recompute_ms;
  record["regions_recomputed"] = outcome.effect.recomputed;
  const auto without = most(plain_bytes_);
  if (outcome.effect.knows_bytes_dropped) {
    record["estimated_activation_bytes"] = without;
  }
  if (outcome.budget) {
    record["budget"] = outcome.budget->most_of(world_).to_json();
    record["budget"]["in_host_memory"] = describe(budget_->placement());
  }
  if (const int64_t moved = optimizer_->moved_bytes() - moved_before_; moved > 0) {
    record["moved_bytes"] = moved;
    record["host_bytes"] = most(memory::host_bytes());
  }
  outcome.metrics.write_to(record, world_);
  record["memory"] = largest_memory();
}

}  // namespace reprise
