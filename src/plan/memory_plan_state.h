// What a MemoryPlan shares between its copies, and what is applied by a PlanGuard.
#pragma once

#include "plan/decisions_guard.h"
#include "plan/step_planner.h"
#include "plan/trace/step_trace.h"

#include <reprise/plan.h>

#include <c10/util/Exception.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace reprise {

namespace planning {

/// Throws unless `bytes` can be a budget of activation bytes.
void check_budget(int64_t bytes);

}  // namespace planning

struct MemoryPlan::State {
  // Both are null for a plan made from decisions.
  std::shared_ptr<const planning::StepTrace> trace;
  std::shared_ptr<const planning::StepPlanner> planner;
  std::vector<PlanPoint> curve;
  int64_t budget = 0;
  bool is_enforced = false;
  int64_t reserve = 0;
  planning::Matching matching = planning::Matching::InOrder;
  std::shared_ptr<const planning::StepPlan> chosen;
  planning::StepDecisions step;  // the chosen decisions, ready to be applied

  /// Everything but a choice.
  static std::shared_ptr<State> of(planning::StepTrace traced,
                                   planning::PlannerOptions options,
                                   bool is_enforced,
                                   int64_t reserve);
  /// With the choice that `options` ask for.
  static std::shared_ptr<State> of(planning::StepTrace traced, const PlanOptions& options);
  void choose(int64_t bytes);

  /// The plan with what each region was called with and did.
  planning::StepPlan signed_plan(planning::StepPlan plan) const {
    for (size_t i = 0; i < plan.decisions.size(); ++i) {
      plan.decisions[i].signature = trace->regions[i].signature;
    }
    return plan;
  }

  planning::Counted counted() const {
    return planner != nullptr ? planner->options().counted() : planning::Counted::Activations;
  }

  const planning::StepTrace& traced() const {
    TORCH_CHECK(trace != nullptr,
                "[plan] this plan was made from decisions alone (MemoryPlan::of), without the step "
                "behind them: call reprise::plan to choose another one or to explain it.");
    return *trace;
  }
};

}  // namespace reprise
