#include "plan/step_planner.h"

#include "plan/chain_solver.h"
#include "plan/joined_regions.h"
#include "plan/trace_costs.h"
#include "plan/trace_peaks.h"

#include <reprise/offload.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <tuple>
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
      decisions.push_back(decision_of(region, costs.block(unit.first_block), unit));
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

/// The solver's curve, counted exactly; with outer regions only the plans that have some.
void add_plans(const StepTrace& trace,
               const ChainCosts& costs,
               const PlannerOptions& options,
               size_t longest_segment,
               std::vector<StepPlan>& plans) {
  SolverOptions solving;
  solving.allow_offload = options.host_bytes > 0;
  solving.allow_lossy = options.allow_lossy;
  solving.host_limit = options.host_bytes;
  solving.longest_segment = longest_segment;
  const ChainSolver solver(costs, solving);
  const Counted counted = options.counts_gradients ? Counted::WithGradients : Counted::Activations;
  for (const CurvePoint& point : solver.curve()) {
    const auto plan = solver.plan_for(point.peak_bytes);
    TORCH_INTERNAL_ASSERT(plan.has_value());
    if (longest_segment > 1 && !has_joined(*plan)) {
      continue;
    }
    StepPlan planned{.decisions = decisions_of(trace, costs, *plan)};
    const StepPeaks peaks = predict_peaks(trace, planned.decisions, counted);
    planned.peak_bytes = peaks.peak();
    planned.host_bytes = peaks.host;
    planned.extra_ms = static_cast<double>(plan->prediction.extra_ns) * kMilliseconds;
    if (planned.host_bytes <= options.host_bytes) {
      plans.push_back(std::move(planned));
    }
  }
}

/// Plans with outer regions: a search of their own, because among so many more ways the solver
/// would thin out those of single regions.
void add_joined_plans(const StepTrace& trace,
                      const PlannerOptions& options,
                      std::vector<StepPlan>& plans) {
  ChainCosts costs = costs_of(trace, options);
  costs.joinable = joinable_regions(trace);
  const size_t longest =
      std::min(options.longest_segment, 1 + *std::ranges::max_element(costs.joinable));
  if (longest == 1) {
    return;
  }
  // Running a whole block again takes no less time than its recompute, which is a part of that;
  // where single timings say otherwise, it is by chance.
  for (BlockCosts& kind : costs.kinds) {
    kind.forward_ns = std::max(kind.forward_ns, full_replay_ns(kind) + kind.region_ns);
  }
  add_plans(trace, costs, options, longest, plans);
}

SpeedsWanted wanted_speeds(const StepTrace& trace, const PlannerOptions& options) {
  SpeedsWanted wanted{.link = options.host_bytes > 0};
  for (const TracedStorage& storage : trace.storages) {
    const bool has_form = storage.compressed.bytes > 0;
    wanted.masks = wanted.masks || (has_form && storage.compressed.is_exact);
    wanted.floating =
        wanted.floating || (has_form && !storage.compressed.is_exact && options.allow_lossy);
  }
  return wanted;
}

bool has_something_to_move(const StepTrace& trace) {
  const auto moves = [](const auto& tensor) { return tensor.host_bytes > 0; };
  return std::any_of(trace.storages.begin(), trace.storages.end(), moves) ||
         std::any_of(trace.regions.begin(), trace.regions.end(), [&](const TracedRegion& region) {
           return std::any_of(region.inputs.begin(), region.inputs.end(), moves);
         });
}

/// The options with what they leave to be measured.
PlannerOptions checked(const StepTrace& trace, PlannerOptions options) {
  if (!options.must_have_effect) {
    const bool can_move = trace.host.is_served && options.host_bytes >= trace.host.page_bytes &&
                          has_something_to_move(trace);
    options.host_bytes = can_move ? options.host_bytes : 0;
    options.allow_lossy = options.allow_lossy && wanted_speeds(trace, options).floating;
  }
  TORCH_CHECK(options.host_bytes >= 0,
              "[plan] a host budget is a number of bytes, or 0 to offload nothing; found ",
              options.host_bytes);
  TORCH_CHECK(options.host_bytes == 0 || trace.host.is_served,
              "[plan] a host budget of ",
              options.host_bytes,
              " bytes has no effect: the step's activations are on ",
              trace.device,
              ", in host memory already. Leave it at 0.");
  TORCH_CHECK(options.host_bytes == 0 || options.host_bytes >= trace.host.page_bytes,
              "[plan] a host budget of ",
              options.host_bytes,
              " bytes holds nothing: host memory is taken in pages of ",
              trace.host.page_bytes,
              " bytes. Raise it, or leave it at 0.");
  TORCH_CHECK(options.host_bytes == 0 || has_something_to_move(trace),
              "[plan] a host budget of ",
              options.host_bytes,
              " bytes has no effect: all results and inputs of the step's regions are too small to "
              "be moved. Leave it at 0.");
  const SpeedsWanted wanted = wanted_speeds(trace, options);
  TORCH_CHECK(!options.allow_lossy || wanted.floating,
              "[plan] allow_lossy has no effect: no result of the step's regions has floating "
              "numbers of at least ",
              kSmallestMovedBytes,
              " bytes. Leave it off.");
  if (!options.speeds) {
    options.speeds = measure_speeds(trace.device, wanted);
  }
  return options;
}

/// Everything computed again, and nothing: whatever the solver thins out, these are plans.
void add_simple_plans(const StepTrace& trace,
                      const PlannerOptions& options,
                      std::vector<StepPlan>& plans) {
  const Counted counted = options.counts_gradients ? Counted::WithGradients : Counted::Activations;
  const ChainCosts costs = costs_of(trace, options);
  for (const bool is_plain : {false, true}) {
    StepPlan plan;
    int64_t extra_ns = 0;
    for (size_t i = 0; i < trace.regions.size(); ++i) {
      plan.decisions.push_back({.name = trace.regions[i].name, .is_plain = is_plain});
      const BlockCosts& block = costs.block(i);
      extra_ns += is_plain ? 0 : full_replay_ns(block) + block.region_ns;
    }
    plan.peak_bytes = predict_peaks(trace, plan.decisions, counted).peak();
    plan.extra_ms = static_cast<double>(extra_ns) * kMilliseconds;
    plans.push_back(std::move(plan));
  }
}

// Those that no other beats in bytes and time, smallest first.
std::vector<StepPlan> unbeaten(std::vector<StepPlan> plans) {
  std::stable_sort(plans.begin(), plans.end(), [](const StepPlan& a, const StepPlan& b) {
    return std::tie(a.peak_bytes, a.extra_ms, a.host_bytes) <
           std::tie(b.peak_bytes, b.extra_ms, b.host_bytes);
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

bool StepPlan::is_lossy() const {
  return std::any_of(decisions.begin(), decisions.end(), [](const RegionDecision& decision) {
    return decision.allow_lossy;
  });
}

StepPlanner::StepPlanner(const StepTrace& trace, PlannerOptions options)
    : options_(checked(trace, std::move(options))) {
  PlannerOptions narrow = options_;
  narrow.host_bytes = 0;
  narrow.allow_lossy = false;
  std::vector<StepPlan> plans;
  add_plans(trace, costs_of(trace, narrow), narrow, 1, plans);
  add_simple_plans(trace, narrow, plans);
  add_joined_plans(trace, narrow, plans);
  if (options_.host_bytes > 0 || options_.allow_lossy) {
    // Beside the others: what more may be used makes no budget slower.
    add_plans(trace, costs_of(trace, options_), options_, 1, plans);
  }
  curve_ = unbeaten(std::move(plans));
}

const StepPlan& StepPlanner::plan_for(int64_t budget_bytes) const {
  TORCH_CHECK(
      budget_bytes >= least_bytes(),
      "[plan] no plan fits ",
      budget_bytes,
      options_.counts_gradients ? " bytes of activations and gradients" : " bytes of activations",
      ": the least budget for this step is ",
      least_bytes(),
      " bytes. Use that, a smaller batch or shorter rows.");
  const auto next = std::upper_bound(
      curve_.begin(), curve_.end(), budget_bytes, [](int64_t budget, const StepPlan& plan) {
        return budget < plan.peak_bytes;
      });
  return *std::prev(next);
}

}  // namespace reprise::planning
