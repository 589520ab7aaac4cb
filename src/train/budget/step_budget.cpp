#include "train/budget/step_budget.h"

#include "memory/device_memory.h"
#include "memory/host_memory.h"
#include "parallel/rehearsed_step.h"
#include "train/budget/budget_files.h"
#include "train/budget/out_of_memory.h"

#include <reprise/memory.h>
#include <reprise/offload.h>
#include <reprise/report/units.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace reprise {

namespace {

using Clock = std::chrono::steady_clock;

// For memory that allocators hold unused, that libraries take, and that other programs may need.
int64_t safety_margin(const memory::DeviceMemory& memory, c10::Device device) {
  return memory.total / (device.is_cpu() ? 10 : 20);
}

std::string bytes_text(int64_t bytes) {
  return human_bytes(static_cast<double>(bytes)) + " (" + std::to_string(bytes) + "B)";
}

// If the rest of a block is less than 1 MiB, CUDA's allocator gives it to the tensor too.
int64_t gradient_bytes_of(const at::Tensor& parameter) {
  constexpr int64_t kLarge = 1 << 20, kRest = 512 << 10;
  const auto bytes = static_cast<int64_t>(parameter.nbytes());
  return bytes + (parameter.is_cpu() || bytes <= kLarge ? 0 : kRest);
}

std::string option_of(bool is_total) {
  return is_total ? "`memory_budget`" : "`activation_memory_budget`";
}

}  // namespace

Json BudgetOutcome::to_json() const {
  return {{"bytes", budget_bytes},
          {"predicted_bytes", predicted_bytes},
          {"measured_bytes", measured_bytes},
          {"planning_ms", planning_ms}};
}

BudgetOutcome BudgetOutcome::most_of(const World& world) const {
  const auto most = [&](double number) { return world.max(number, "the memory planned"); };
  const auto bytes = [&](int64_t number) {
    return static_cast<int64_t>(most(static_cast<double>(number)));
  };
  return {.budget_bytes = bytes(budget_bytes),
          .predicted_bytes = bytes(predicted_bytes),
          .measured_bytes = bytes(measured_bytes),
          .planning_ms = most(planning_ms),
          .planning_in_step_ms = planning_in_step_ms};
}

StepBudget::StepBudget(const MemoryLimits& limits,
                       const std::string& role,
                       const Model& model,
                       const Optimizer& optimizer)
    : limits_(limits),
      model_(model),
      optimizer_(optimizer),
      sharded_(sharded_model_of(model)),
      plans_(fresh_plans()) {
  if (!limits.plan_file.empty()) {
    follow(role);
  }
  TORCH_CHECK(limits_.activations.has_value() != limits_.total.has_value(),
              "[budget] give a budget for activations or a total budget, not both.");
  note_gradients();
  if (limits_.host_bytes > 0) {
    settings_before_ = offload_settings();
    auto settings = *settings_before_;
    // The pages of activations have what gradients and optimizer state have left.
    settings.host_budget = limits_.host_bytes - memory::host_bytes();
    TORCH_CHECK(settings.host_budget > 0,
                "`host_memory_budget` ",
                bytes_text(limits_.host_bytes),
                " is too small: gradients and optimizer state take ",
                bytes_text(memory::host_bytes()),
                ", and nothing is left for activations.");
    set_offload_settings(settings);
  }
  const auto memory = memory::device_memory(model.device());
  TORCH_CHECK(asked().kind != Budget::Kind::Bytes || asked().bytes <= memory.total,
              option_of(is_total()),
              " ",
              asked().describe(),
              ": ",
              model.device(),
              " has ",
              human_bytes(static_cast<double>(memory.total)));
}

StepBudget::~StepBudget() {
  if (settings_before_) {
    try {
      set_offload_settings(*settings_before_);
    } catch (const c10::Error&) {
      // A failed run may still hold tensors on the host; then its limit stays.
    }
  }
}

ShapePlans StepBudget::fresh_plans() {
  return ShapePlans([this](std::shared_ptr<const planning::StepTrace> trace, bool has_gradients) {
    return plan(std::move(trace), has_gradients);
  });
}

// None stay on the device if they are in host memory.
void StepBudget::note_gradients() {
  trained_.clear();
  gradient_bytes_ = 0;
  if (optimizer_.host_gradients() == nullptr) {
    for (const auto& [name, parameter] : optimizer_.parameters()) {
      trained_.push_back(parameter);
      gradient_bytes_ += gradient_bytes_of(parameter);
    }
  }
  if (sharded_ != nullptr) {
    gradient_bytes_ = sharded_->gradient_bytes();
  }
}

void StepBudget::forget_plans() {
  step_.clear();
  plans_ = fresh_plans();
  note_gradients();
}

// Takes budget and plans from a file.
void StepBudget::follow(const std::string& role) {
  TORCH_CHECK(!limits_.activations && !limits_.total && limits_.host_bytes == 0,
              "[budget] a file of plans has its own budgets: give no others.");
  auto read = read_plan_file(limits_.plan_file, role, model_);
  TORCH_CHECK(read.allow_lossy == limits_.allow_lossy,
              limits_.plan_file.string(),
              read.allow_lossy ? ": these plans use lossy compression: give `allow_lossy` to allow "
                                 "it"
                               : ": `allow_lossy` has no effect: these plans are exact");
  (read.is_total ? limits_.total : limits_.activations) = read.budget;
  limits_.host_bytes = read.host_bytes;
  budget_bytes_ = read.budget.bytes;
  for (auto& plan : read.plans) {
    plans_.add(std::move(plan));
  }
}

int64_t StepBudget::automatic_bytes() const {
  const auto device = model_.device();
  const auto memory = memory::device_memory(device);
  // Processes on a CPU may be on one machine, and share what is left.
  const int64_t sharers = sharded_ != nullptr && device.is_cpu() ? sharded_->world().size() : 1;
  const int64_t left = (memory.left - safety_margin(memory, device)) / sharers;
  const int64_t bytes = is_total() ? start_bytes_ + left : left - gradient_bytes_;
  TORCH_CHECK(bytes > 0,
              option_of(is_total()),
              " auto: ",
              device,
              " has ",
              human_bytes(static_cast<double>(memory.left)),
              " left of ",
              human_bytes(static_cast<double>(memory.total)),
              ", and gradients and a margin for the allocator take all of it. Use a smaller model, "
              "`lora_r`, or free the device.");
  return bytes;
}

/// The budget in bytes, given a planner for one shape. `base`: bytes that the planner does not
/// count.
int64_t StepBudget::resolve(const planning::StepPlanner& planner, int64_t base) const {
  const auto device = model_.device().type();
  const auto at_least = [&](int64_t bytes) {
    return std::max({budget_bytes_, bytes, update_peak()});
  };
  switch (asked().kind) {
    case Budget::Kind::Bytes:
      return asked().bytes;
    case Budget::Kind::Fraction:
      return at_least(static_cast<int64_t>(
          asked().fraction * static_cast<double>(base + budget_for(planner.most_bytes(), device))));
    case Budget::Kind::Min:
      return at_least(base + budget_for(planner.least_bytes(), device));
    case Budget::Kind::Max:
      return at_least(base + budget_for(planner.most_bytes(), device));
    case Budget::Kind::Auto:
      return automatic_bytes_;
  }
  return 0;
}

// An update comes when activations are gone, but gradients are there. It counts in a total budget.
int64_t StepBudget::update_peak() const {
  return is_total() ? base_bytes(/*has_gradients=*/true) + optimizer_.update_bytes() : 0;
}

int64_t StepBudget::base_bytes(bool has_gradients) const {
  return is_total() ? start_bytes_ + (has_gradients ? gradient_bytes_ : 0) : 0;
}

ShapePlan StepBudget::plan(std::shared_ptr<const planning::StepTrace> trace, bool has_gradients) {
  start_bytes_ = live_bytes(model_.device());  // the first trace leaves library workspaces behind
  if (asked().kind == Budget::Kind::Auto && automatic_bytes_ == 0) {
    automatic_bytes_ = automatic_bytes();
  }
  ShapePlan plan;
  plan.planner = std::make_shared<const planning::StepPlanner>(
      *trace,
      planning::PlannerOptions{.host_bytes = limits_.host_bytes,
                               .allow_lossy = limits_.allow_lossy,
                               .counts_gradients = is_total() && !has_gradients,
                               .must_have_effect = plans_.all().empty()});
  plan.trace = std::move(trace);
  choose(plan, has_gradients);
  return plan;
}

/// Chooses the fastest of the planner's plans for the memory that is left now.
void StepBudget::choose(ShapePlan& plan, bool has_gradients) {
  const auto device = model_.device().type();
  const auto& planner = *plan.planner;
  const int64_t base = base_bytes(has_gradients);
  budget_bytes_ = resolve(planner, base);
  const int64_t usable = planned_bytes(budget_bytes_ - base, device);
  TORCH_CHECK_WITH(OutOfMemoryError,
                   usable >= planner.least_bytes(),
                   option_of(is_total()),
                   " ",
                   bytes_text(budget_bytes_),
                   " is too small: the least for ",
                   planned_for_,
                   " is ",
                   // A little more, so that it is also enough when the run is repeated.
                   bytes_text(base + budget_for(planner.least_bytes() * 129 / 128, device)),
                   is_total() ? c10::str(", of which ",
                                         human_bytes(static_cast<double>(base)),
                                         " are in use before it begins")
                              : "",
                   ". Give that, or a smaller `per_device_train_batch_size` or `max_length`.");
  TORCH_CHECK_WITH(OutOfMemoryError,
                   update_peak() <= budget_bytes_,
                   option_of(is_total()),
                   " ",
                   bytes_text(budget_bytes_),
                   " is too small: an update of the weights takes ",
                   bytes_text(update_peak()),
                   ". Give that, or choose another `optim`.");
  const planning::StepPlan& chosen = planner.plan_for(usable);
  plan.peak_bytes = std::max(base + chosen.peak_bytes, update_peak());
  plan.base_bytes = base;
  plan.extra_ms = chosen.extra_ms;
  plan.step = planning::step_decisions(chosen.decisions);
}

planning::StepTrace StepBudget::trace(const MicroBatch& micro_batch) const {
  constexpr auto kLong = std::chrono::seconds(1);
  const auto begun = Clock::now();
  bool is_reported = false;
  planning::TraceOptions options;
  options.on_region = [&] {
    if (report_ && !is_reported && Clock::now() - begun > kLong) {
      is_reported = true;
      report_(micro_batch.shape.rows, micro_batch.shape.length);
    }
  };
  std::optional<RehearsedStep> alone;
  if (sharded_ != nullptr) {
    alone.emplace(*sharded_);
    options.summed = trained_;
  }
  try {
    return planning::trace_step(micro_batch.forward_backward, model_.device(), options);
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) {
      throw;
    }
    TORCH_CHECK_WITH(OutOfMemoryError,
                     false,
                     "out of memory while measuring a micro-batch of ",
                     micro_batch.shape.rows,
                     " x ",
                     micro_batch.shape.length,
                     " tokens with every block recomputed. Use a smaller "
                     "`per_device_train_batch_size` or `max_length`. The allocator said: ",
                     error.what());
  }
}

int64_t StepBudget::limit_above(int64_t base) const {
  return asked().kind == Budget::Kind::Max ? memory::AllocationWatch::kNoLimit
                                           : budget_bytes_ - base;
}

void StepBudget::begin_step(const std::vector<MicroBatch>& micro_batches) {
  const auto begun = Clock::now();
  start_bytes_ = live_bytes(model_.device());
  outcome_ = {};
  step_.clear();
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const auto& each = micro_batches[i];
    step_.push_back(&plans_.plan_for(each.shape, is_total() && i > 0, [&] { return trace(each); }));
  }
  // More may be alive than when a plan was made, after a first trace or a rollout.
  start_bytes_ = live_bytes(model_.device());
  for (ShapePlan* plan : step_) {
    if (plan->base_bytes < base_bytes(plan->has_gradients) && plan->planner != nullptr) {
      choose(*plan, plan->has_gradients);
    }
    outcome_.predicted_bytes = std::max(outcome_.predicted_bytes, plan->peak_bytes);
  }
  outcome_.budget_bytes = budget_bytes_;
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
  outcome_.planning_in_step_ms = ms;
  outcome_.planning_ms = ms + std::exchange(ahead_ms_, 0.0);
  if (is_total()) {
    TORCH_CHECK_WITH(OutOfMemoryError,
                     start_bytes_ < budget_bytes_,
                     option_of(true),
                     " ",
                     bytes_text(budget_bytes_),
                     " is too small: ",
                     bytes_text(start_bytes_),
                     " are in use before a step begins.");
    watch_.emplace(model_.device(), limit_above(start_bytes_));
  }
}

void StepBudget::note_time(double ms) {
  outcome_.planning_ms += ms - std::exchange(outcome_.planning_in_step_ms, ms);
}

void StepBudget::plan_ahead(const MicroBatch& micro_batch, bool repeats) {
  const std::string before = std::exchange(planned_for_,
                                           c10::str("this run, whose largest micro-batch has ",
                                                    micro_batch.shape.rows,
                                                    " x ",
                                                    micro_batch.shape.length,
                                                    " tokens,"));
  begin_step(std::vector<MicroBatch>(repeats ? 2 : 1, micro_batch));
  planned_for_ = before;
  ahead_ms_ = outcome_.planning_ms;
  watch_.reset();
  step_.clear();
}

std::string StepBudget::give_up() {
  watch_.reset();
  return "The step was planned to take " + bytes_text(outcome_.predicted_bytes) + " of " +
         option_of(is_total()) + " " + bytes_text(budget_bytes_) +
         ". If it took more, it ran differently from when it was traced, or other threads "
         "allocated tensors meanwhile; " +
         bytes_text(budget_bytes_ + budget_bytes_ / 8) + " would leave room for that.";
}

}  // namespace reprise
