#include "plan/step_planner.h"

#include "plan/chain_solver.h"
#include "plan/joined_regions.h"
#include "plan/trace_costs.h"
#include "plan/trace_peaks.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise::planning {

namespace {

constexpr double kMilliseconds = 1e-6;  // of a nanosecond

std::vector<RegionDecision> decisions_of(const StepTrace& trace,
                                         const ChainCosts& costs,
                                         const Plan& plan) {
  std::vector<RegionDecision> decisions;
  for (const UnitPlan& unit : plan.units) {
    TORCH_INTERNAL_ASSERT(unit.first_block == decisions.size());
    if (unit.blocks > 1) {
      for (size_t i = 0; i < unit.blocks; ++i) {
        decisions.push_back({.name = trace.regions[unit.first_block + i].name,
                             .is_plain = unit.inside == Inside::Plain,
                             .joined = i == 0 ? unit.blocks - 1 : 0});
      }
      continue;
    }
    const TracedRegion& region = trace.regions[unit.first_block];
    if (unit.is_region) {
      TORCH_INTERNAL_ASSERT(unit.choices.size() == costs.block(unit.first_block).ops.size());
      decisions.push_back(decision_of(region, unit.choices));
    } else {
      decisions.push_back({.name = region.name, .is_plain = true});
    }
  }
  return decisions;
}

bool has_joined(const Plan& plan) {
  return std::any_of(
      plan.units.begin(), plan.units.end(), [](const UnitPlan& unit) { return unit.blocks > 1; });
}

/// The solver's plans, counted exactly; with outer regions only those that have some.
void add_plans(const StepTrace& trace,
               const ChainCosts& costs,
               const SolverOptions& options,
               std::vector<StepPlan>& plans) {
  const ChainSolver solver(costs, options);
  for (const CurvePoint& point : solver.curve()) {
    const auto plan = solver.plan_for(point.peak_bytes);
    TORCH_INTERNAL_ASSERT(plan.has_value());
    if (options.longest_segment > 1 && !has_joined(*plan)) {
      continue;
    }
    StepPlan planned{.decisions = decisions_of(trace, costs, *plan)};
    planned.peak_bytes = predict_peaks(trace, planned.decisions).peak();
    planned.extra_ms = static_cast<double>(plan->prediction.extra_ns) * kMilliseconds;
    plans.push_back(std::move(planned));
  }
}

// Those that no other beats in bytes and time, smallest first.
std::vector<StepPlan> unbeaten(std::vector<StepPlan> plans) {
  std::stable_sort(plans.begin(), plans.end(), [](const StepPlan& a, const StepPlan& b) {
    return std::pair(a.peak_bytes, a.extra_ms) < std::pair(b.peak_bytes, b.extra_ms);
  });
  std::vector<StepPlan> best;
  for (StepPlan& plan : plans) {
    if (best.empty() || plan.extra_ms < best.back().extra_ms) {
      best.push_back(std::move(plan));
    }
  }
  return best;
}

}  // namespace

bool StepPlan::is_plain() const {
  return std::all_of(decisions.begin(), decisions.end(), [](const RegionDecision& decision) {
    return decision.is_plain && decision.joined == 0;
  });
}

StepPlanner::StepPlanner(const StepTrace& trace, const PlannerOptions& asked) {
  ChainCosts costs = costs_of(trace);
  SolverOptions options;
  options.allow_offload = false;
  options.allow_compress = false;
  options.longest_segment = 1;
  std::vector<StepPlan> plans;
  add_plans(trace, costs, options, plans);
  // A second search: among so many more ways the solver would thin out those of single regions.
  costs.joinable = joinable_regions(trace);
  options.longest_segment =
      std::min(asked.longest_segment, 1 + *std::ranges::max_element(costs.joinable));
  if (options.longest_segment != 1) {
    // Running a whole block again takes no less time than its recompute, which is a part of that;
    // where single timings say otherwise, it is by chance.
    for (BlockCosts& kind : costs.kinds) {
      kind.forward_ns = std::max(kind.forward_ns, full_replay_ns(kind) + kind.region_ns);
    }
    add_plans(trace, costs, options, plans);
  }
  curve_ = unbeaten(std::move(plans));
}

const StepPlan& StepPlanner::plan_for(int64_t budget_bytes) const {
  TORCH_CHECK(budget_bytes >= least_bytes(),
              "[plan] no plan fits ",
              budget_bytes,
              " bytes of activations: the least budget for this step is ",
              least_bytes(),
              " bytes. Use that, a smaller batch or shorter rows.");
  const auto next = std::upper_bound(
      curve_.begin(), curve_.end(), budget_bytes, [](int64_t budget, const StepPlan& plan) {
        return budget < plan.peak_bytes;
      });
  return *std::prev(next);
}

}  // namespace reprise::planning
