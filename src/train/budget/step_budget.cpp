#include "train/budget/step_budget.h"

#include "memory/device_memory.h"
#include "train/budget/budget_files.h"

#include <reprise/memory.h>
#include <reprise/offload.h>
#include <reprise/train/units.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace reprise {

namespace {

using Clock = std::chrono::steady_clock;

// Allocators round: malloc every tensor by a few bytes, CUDA's next to nothing.
struct Rounding {
  double share = 0;
  int64_t bytes = 0;
};

Rounding rounding(c10::Device device) {
  return device.is_cpu() ? Rounding{0.01, 16 << 10} : Rounding{0.002, 2 << 20};
}

/// What a plan may predict so that `bytes` are not exceeded.
int64_t planned_bytes(int64_t bytes, c10::Device device) {
  const auto [share, fixed] = rounding(device);
  return static_cast<int64_t>(static_cast<double>(bytes) * (1 - share)) - fixed;
}

/// A budget that a prediction of `bytes` fits.
int64_t budget_for(int64_t bytes, c10::Device device) {
  const auto [share, fixed] = rounding(device);
  return static_cast<int64_t>(static_cast<double>(bytes + fixed) / (1 - share)) + 2;
}

// What allocators hold without using it, libraries take, and other programs may want.
int64_t safety_margin(const detail::DeviceMemory& memory, c10::Device device) {
  return memory.total / (device.is_cpu() ? 10 : 20);
}

std::string bytes_text(int64_t bytes) {
  return human_bytes(static_cast<double>(bytes)) + " (" + std::to_string(bytes) + "B)";
}

std::string flag_of(bool is_total) {
  return is_total ? "--memory_budget" : "--activation_memory_budget";
}

}  // namespace

Json BudgetOutcome::to_json() const {
  return {{"bytes", budget_bytes},
          {"predicted_bytes", predicted_bytes},
          {"measured_bytes", measured_bytes},
          {"planning_ms", planning_ms}};
}

StepBudget::StepBudget(const MemoryLimits& limits,
                       const std::string& role,
                       const Model& model,
                       const Optimizer& optimizer)
    : limits_(limits),
      model_(model),
      optimizer_(optimizer),
      plans_([this](std::shared_ptr<const planning::StepTrace> trace, bool has_gradients) {
        return plan(std::move(trace), has_gradients);
      }) {
  if (!limits.plan_file.empty()) {
    follow(role);
  }
  TORCH_CHECK(limits_.activations.has_value() != limits_.total.has_value(),
              "[budget] give a budget of activations or of everything, not both.");
  for (const auto& [name, parameter] : optimizer.parameters()) {
    trained_.push_back(parameter);
    gradient_bytes_ += static_cast<int64_t>(parameter.nbytes());
  }
  if (limits.host_bytes > 0) {
    auto settings = offload_settings();
    settings.host_budget = limits.host_bytes;
    set_offload_settings(settings);
  }
  const auto memory = detail::device_memory(model.device());
  TORCH_CHECK(asked().kind != Budget::Kind::Bytes || asked().bytes <= memory.total,
              flag_of(is_total()),
              " ",
              asked().describe(),
              ": ",
              model.device(),
              " has ",
              human_bytes(static_cast<double>(memory.total)));
}

// Takes budget and plans from a file.
void StepBudget::follow(const std::string& role) {
  auto read = read_plan_file(limits_.plan_file, role, model_);
  (read.is_total ? limits_.total : limits_.activations) = read.budget;
  budget_bytes_ = read.budget.bytes;
  for (auto& plan : read.plans) {
    plans_.add(std::move(plan));
  }
}

int64_t StepBudget::automatic_bytes() const {
  const auto device = model_.device();
  const auto memory = detail::device_memory(device);
  const int64_t left = memory.left - safety_margin(memory, device);
  const int64_t bytes = is_total() ? start_bytes_ + left : left - gradient_bytes_;
  TORCH_CHECK(bytes > 0,
              flag_of(is_total()),
              " auto: ",
              device,
              " has ",
              human_bytes(static_cast<double>(memory.left)),
              " left of ",
              human_bytes(static_cast<double>(memory.total)),
              ", which gradients and a margin for the allocator use up. Use a smaller model, "
              "--lora_r, or free the device.");
  return bytes;
}

/// The budget in bytes, given a planner for one shape. `base`: what is there besides what the
/// planner counts.
int64_t StepBudget::resolve(const planning::StepPlanner& planner, int64_t base) const {
  const auto device = model_.device();
  const auto at_least = [&](int64_t bytes) { return std::max(budget_bytes_, bytes); };
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

ShapePlan StepBudget::plan(std::shared_ptr<const planning::StepTrace> trace, bool has_gradients) {
  const auto device = model_.device();
  if (asked().kind == Budget::Kind::Auto && automatic_bytes_ == 0) {
    automatic_bytes_ = automatic_bytes();
  }
  const auto planner = std::make_shared<const planning::StepPlanner>(
      *trace,
      planning::PlannerOptions{.host_bytes = limits_.host_bytes,
                               .allow_lossy = limits_.allow_lossy,
                               .counts_gradients = is_total() && !has_gradients,
                               .speeds = speeds_});
  speeds_ = planner->options().speeds;
  const int64_t base = is_total() ? start_bytes_ + (has_gradients ? gradient_bytes_ : 0) : 0;
  budget_bytes_ = resolve(*planner, base);
  const int64_t usable = planned_bytes(budget_bytes_ - base, device);
  TORCH_CHECK_WITH(OutOfMemoryError,
                   usable >= planner->least_bytes(),
                   flag_of(is_total()),
                   " ",
                   bytes_text(budget_bytes_),
                   " is too small: the least for such a micro-batch is ",
                   // A little more than that, so that it will also do when the run is repeated.
                   bytes_text(base + budget_for(planner->least_bytes() * 129 / 128, device)),
                   is_total() ? c10::str(", of which ",
                                         human_bytes(static_cast<double>(base)),
                                         " are there before it begins")
                              : "",
                   ". Give that, or a smaller --per_device_train_batch_size or --max_length.");
  const planning::StepPlan& chosen = planner->plan_for(usable);
  ShapePlan plan;
  plan.peak_bytes = base + chosen.peak_bytes;
  plan.base_bytes = base;
  plan.extra_ms = chosen.extra_ms;
  plan.step = planning::planned_step(chosen.decisions);
  plan.planner = planner;
  plan.trace = std::move(trace);
  return plan;
}

int64_t StepBudget::limit_above(int64_t base) const {
  return asked().kind == Budget::Kind::Max ? detail::AllocationWatch::kNoLimit
                                           : budget_bytes_ - base;
}

void StepBudget::begin_step(const std::vector<MicroBatch>& micro_batches) {
  const auto begun = Clock::now();
  start_bytes_ = live_bytes(model_.device());
  outcome_ = {};
  step_.clear();
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const auto& each = micro_batches[i];
    step_.push_back(&plans_.plan_for(each.shape, is_total() && i > 0, [&] {
      return planning::trace_step(each.forward_backward, model_.device());
    }));
    outcome_.predicted_bytes = std::max(outcome_.predicted_bytes, step_.back()->peak_bytes);
  }
  outcome_.budget_bytes = budget_bytes_;
  outcome_.planning_ms = std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
  if (is_total()) {
    watch_.emplace(model_.device(), limit_above(start_bytes_));
  }
}

StepBudget::Use::Use(StepBudget& budget, size_t index)
    : budget_(budget), guard_(std::in_place, budget.step_[index]->step) {
  if (!budget.is_total()) {
    meter_.emplace(budget.model_.device(), budget.trained_, budget.limit_above(0));
  }
}

void StepBudget::Use::end_forward() {
  guard_->finish();
  guard_.reset();
}

void StepBudget::Use::end_backward() {
  if (meter_) {
    budget_.outcome_.measured_bytes = std::max(budget_.outcome_.measured_bytes, meter_->peak());
    meter_.reset();
  }
}

BudgetOutcome StepBudget::end_step() {
  if (watch_) {
    outcome_.measured_bytes = start_bytes_ + watch_->most();
    watch_.reset();
  }
  constexpr size_t kMostShown = 1000;
  if (measured_.size() < kMostShown) {
    measured_.push_back(outcome_.measured_bytes);
  }
  return outcome_;
}

std::map<std::string, RegionRuns> StepBudget::regions() const {
  std::map<std::string, RegionRuns> regions;
  const auto count = [&](const std::string& name, size_t entered) {
    regions[name].entered += entered;
    ++regions[name].recomputed;
  };
  for (const ShapePlan* plan : step_) {
    const auto decisions = plan->decisions();
    for (size_t i = 0; i < decisions.size(); ++i) {
      const size_t last = i + decisions[i].joined;
      if (last > i) {
        count(decisions[i].name + " to " + decisions[last].name, 1);
      }
      for (size_t k = i; k <= last; ++k) {
        // One inside another is made again when that is recomputed, which ends before the last.
        if (!decisions[k].is_plain) {
          count(decisions[k].name, k < last ? 2 : 1);
        }
      }
      i = last;
    }
  }
  return regions;
}

std::string StepBudget::give_up() {
  watch_.reset();
  return "The step was planned to take " + bytes_text(outcome_.predicted_bytes) + " of " +
         flag_of(is_total()) + " " + bytes_text(budget_bytes_) +
         ". If it took more, it did not do what it did when it was traced, or tensors of other "
         "programs' threads were allocated meanwhile; " +
         bytes_text(budget_bytes_ + budget_bytes_ / 8) + " would leave room for that.";
}

std::string StepBudget::describe() const {
  return "planned for " + flag_of(is_total()).substr(2) + " " + asked().describe();
}

}  // namespace reprise
