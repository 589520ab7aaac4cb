// What a run within a budget leaves beside its model: memory_plan.json, the plans of all its shapes
// of micro-batches, and memory.html, the one that takes most as a page.
#pragma once

#include "train/budget/shape_plans.h"
#include "train/budget/step_budget.h"

#include <reprise/model/model.h>
#include <reprise/train/plan_file.h>

#include <filesystem>
#include <string>
#include <vector>

namespace reprise {

/// The plans of one trained model of a run. `role` is empty for the run's own, or "critic".
struct PlannedModel {
  std::string role;
  const Model& model;
  const StepBudget& budget;
};

/// Names all of a model that its plans depend on: parameters, their types, which are trained.
std::string plan_fingerprint(const Model& model);

void write_plan_file(const std::filesystem::path& path, const std::vector<PlannedModel>& models);

/// The plans in a file for a model, and the budget they were made for. Throws if they are for
/// another one.
struct PlansRead {
  Budget budget;
  bool is_total = false;
  int64_t host_bytes = 0;
  bool allow_lossy = false;
  std::vector<ShapePlan> plans;
};
PlansRead read_plan_file(const std::filesystem::path& path,
                         const std::string& role,
                         const Model& model);

/// The page of the plan that takes most. Nothing is written if all plans were read from a file.
void write_memory_page(const std::filesystem::path& path,
                       const PlannedModel& model,
                       const std::vector<int64_t>& measured);

}  // namespace reprise
