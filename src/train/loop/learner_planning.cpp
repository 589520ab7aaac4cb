// How a Learner plans its memory: what is on the device, and a plan for every micro-batch.
#include "memory/device_memory.h"
#include "optim/host_gradients.h"
#include "train/budget/budget_files.h"
#include "train/budget/out_of_memory.h"
#include "train/loop/learner.h"

#include <reprise/memory.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace reprise {

std::vector<StepBudget::MicroBatch> Learner::to_plan(MicroBatches& micro_batches,
                                                     double total_weight) {
  std::vector<StepBudget::MicroBatch> planned;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    planned.push_back({micro_batches.shape(i), [this, i, &micro_batches, total_weight] {
                         std::optional<HostGradients::Rehearsal> rehearsal;
                         if (auto* gradients = optimizer_->host_gradients()) {
                           rehearsal.emplace(
                               *gradients,
                               /*adds=*/micro_batches.size() > 1 || options_.accumulation > 1);
                         }
                         // As the last one of a step, which sums gradients.
                         if (sharded_ != nullptr) {
                           sharded_->begin_micro_batch(/*is_last=*/true);
                         }
                         forward(i, micro_batches, StepContext{total_weight}).part.backward();
                         if (sharded_ != nullptr) {
                           sharded_->end_backward();
                         }
                       }});
  }
  return planned;
}

// Runs before anything of the step is measured: shapes without a plan are traced by an extra pass.
void Learner::plan_step(MicroBatches& micro_batches, double total_weight) {
  if (budget_ == nullptr) {
    return;
  }
  world_.run_on_all("planning the memory of a step", [&] {
    plan_with_room([&] { budget_->begin_step(to_plan(micro_batches, total_weight)); });
  });
  budget_->note_time(world_.max(budget_->planning_ms(), "the time of planning"));
}

// If no plan fits, moves the next of what may leave the device, and plans again.
template <class Plan>
void Learner::plan_with_room(const Plan& plan) {
  while (true) {
    try {
      return plan();
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error) || !place_next()) {
        throw;
      }
    }
  }
}

// See Note [What leaves first].
OptimizerOptions Learner::first_placement() {
  OptimizerOptions options = options_.optimizer;
  if (!options_.memory.plan_file.empty()) {  // its plans are for what it says
    options.host = read_plan_file(options_.memory.plan_file, name_, model_).host;
  }
  places_ = {options.host};
  const auto& total = options_.memory.total;
  const bool decides =
      total && (total->kind == Budget::Kind::Bytes || total->kind == Budget::Kind::Auto ||
                total->kind == Budget::Kind::Min);
  if (!decides || sharded_ != nullptr || !can_offload(model_.device())) {
    return options;
  }
  const PlacedBytes bytes = placed_bytes(model_, options, options_.accumulation);
  places_ = placements(bytes, options.host, options_.memory);
  // What cannot be there whatever is planned must not even be allocated.
  const auto is_too_much = [&](const Placement& place) {
    const int64_t more = bytes.on_device(place);
    switch (total->kind) {
      case Budget::Kind::Min:
        return true;
      case Budget::Kind::Auto:
        return more > memory::device_memory(model_.device()).left;
      default:
        return live_bytes(model_.device()) + more > total->bytes;
    }
  };
  while (places_.size() > 1 && is_too_much(places_.front())) {
    places_.erase(places_.begin());
  }
  options.host = places_.front();
  return options;
}

bool Learner::place_next() {
  if (places_.size() < 2) {
    return false;
  }
  places_.erase(places_.begin());
  optimizer_->place(places_.front());
  if (average_ != nullptr) {
    average_->place(places_.front().state);
  }
  budget_->forget_plans();
  return true;
}

void Learner::plan_ahead(MicroBatches& micro_batches, bool repeats) {
  if (budget_ == nullptr) {
    return;
  }
  world_.run_on_all("planning the memory of the largest micro-batches", [&] {
    plan_with_room([&] {
      for (const auto& each : to_plan(micro_batches, std::max(1.0, micro_batches.total_weight()))) {
        budget_->plan_ahead(each, repeats);
      }
    });
  });
}

void Learner::report_planning(StepBudget::Report report) {
  if (budget_ != nullptr) {
    budget_->report_planning(std::move(report));
  }
}

}  // namespace reprise
