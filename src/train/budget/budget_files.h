// The files that a run within a budget writes beside its model: memory_plan.json with the plans for
// all batch shapes, and memory.html, which shows the plan with the largest peak.
#pragma once

#include "train/budget/memory_meter.h"
#include "train/budget/shape_plans.h"
#include "train/budget/step_budget.h"

#include <reprise/model/model.h>
#include "train/budget/plan_file.h"

#include <filesystem>
#include <string>
#include <vector>

namespace reprise {

/// One trained model of a run with its budget. `role` is empty for the main model, or "critic".
struct BudgetedModel {
  std::string role;
  const Model& model;
  const StepBudget& budget;
};

/// A hash of everything in a model that its plans depend on: parameters, their types, and which are
/// trained.
std::string plan_fingerprint(const Model& model);

void write_plan_file(const std::filesystem::path& path, const std::vector<BudgetedModel>& models);

/// The plans in a file for one model, and the budget that they were made for.
struct LoadedPlans {
  Budget budget;
  bool is_total = false;
  int64_t host_bytes = 0;
  bool allow_lossy = false;
  Placement host;  ///< what they expect in host memory
  std::vector<ShapePlan> plans;
};
/// Throws if the plans are for another model or device.
LoadedPlans read_plan_file(const std::filesystem::path& path,
                           const std::string& role,
                           const Model& model);

/// Writes the page of the plan with the largest peak. `most`: the step so far with the largest
/// peak; all zero before the first. `accumulates`: steps have several micro-batches. Writes nothing
/// if all plans were read from a file.
void write_memory_page(const std::filesystem::path& path,
                       const BudgetedModel& model,
                       const MemoryClasses& most,
                       bool accumulates);

}  // namespace reprise
