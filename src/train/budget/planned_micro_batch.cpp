// What a StepBudget does while a step runs: its plans around each micro-batch, and what they did.
#include "train/budget/step_budget.h"

#include <reprise/memory.h>

#include <algorithm>
#include <map>
#include <utility>

namespace reprise {

StepBudget::Use::Use(StepBudget& budget,
                     size_t index,
                     planning::GradientHooks::Listener on_gradient)
    : budget_(budget), index_(index), guard_(std::in_place, budget.step_[index]->step) {
  const auto device = budget.model_.device();
  if (budget.is_total()) {
    hooks_.emplace(device, planning::unwatched(with_gradients()), on_gradient);
  } else {
    meter_.emplace(device, with_gradients(), budget.limit_above(0), std::move(on_gradient));
  }
}

/// The tensors that get a gradient in this micro-batch which stays. Under ddp these are the
/// parameters until the last one, in which sums take their place.
std::vector<at::Tensor> StepBudget::Use::with_gradients() const {
  const auto* sharded = budget_.sharded_;
  const bool is_last = index_ + 1 == budget_.step_.size();
  if (sharded == nullptr || sharded->is_sharded() || is_last) {
    return budget_.trained_;
  }
  std::vector<at::Tensor> parameters;
  for (const auto& parameter : budget_.model_.parameters()) {
    if (parameter.requires_grad()) {
      parameters.push_back(parameter);
    }
  }
  return parameters;
}

void StepBudget::Use::end_forward() {
  guard_->finish();
  guard_.reset();
}

void StepBudget::Use::end_backward() {
  if (meter_) {
    budget_.outcome_.measured_bytes = std::max(budget_.outcome_.measured_bytes, meter_->peak());
    meter_.reset();
    return;
  }
  hooks_.reset();
  if (index_ == 0) {
    // Allocators round gradients up; now it is known by how much.
    budget_.gradient_bytes_ = std::max(budget_.gradient_bytes_,
                                       live_bytes(budget_.model_.device()) - budget_.start_bytes_);
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
    const auto& planned = *plan->step;  // not copied, because this runs after every step
    for (size_t i = 0; i < planned.size(); ++i) {
      const size_t last = i + planned[i].decision.joined;
      if (last > i) {
        count(planned[i].decision.name + " to " + planned[last].decision.name, 1);
      }
      for (size_t k = i; k <= last; ++k) {
        // The outer recompute runs the regions inside again, except for the last one.
        if (!planned[k].decision.is_plain) {
          count(planned[k].decision.name, k < last ? 2 : 1);
        }
      }
      i = last;
    }
  }
  return regions;
}

}  // namespace reprise
