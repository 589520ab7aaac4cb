#include "plan/step_planner.h"

#include "plan/cost/joined_regions.h"
#include "plan/cost/trace_costs.h"
#include "plan/cost/trace_peaks.h"
#include "plan/solve/chain_decisions.h"
#include "plan/solve/chain_solver.h"

#include <reprise/offload.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace reprise::planning {

namespace {

constexpr double kMilliseconds = 1e-6;  // of a nanosecond

bool has_joined(const ChainPlan& plan) {
  return std::any_of(
      plan.units.begin(), plan.units.end(), [](const UnitPlan& unit) { return unit.blocks > 1; });
}

/// Adds the plans of the solver's curve, counted exactly. If segments may be longer than one block,
/// only plans that join some.
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
  const Counted counted = options.counted();
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

/// Plans with outer regions get a search of their own: in a common one, their number would make the
/// solver thin out the plans of single regions.
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
  // A recompute is part of running the whole block, so it cannot take longer. Where the measured
  // times say otherwise, that is noise.
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

/// Checks the options against the step and measures the speeds that were not given.
PlannerOptions checked(const StepTrace& trace, PlannerOptions options) {
  if (!options.must_have_effect) {
    const bool can_move = trace.host.can_offload && options.host_bytes >= trace.host.page_bytes &&
                          has_something_to_move(trace);
    options.host_bytes = can_move ? options.host_bytes : 0;
    options.allow_lossy = options.allow_lossy && wanted_speeds(trace, options).floating;
  }
  TORCH_CHECK(options.host_bytes >= 0,
              "[plan] a host budget is a number of bytes, or 0 to offload nothing; found ",
              options.host_bytes);
  TORCH_CHECK(options.host_bytes == 0 || trace.host.can_offload,
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
              "[plan] allow_lossy has no effect: no result of the step's regions has "
              "floating-point values of at least ",
              kSmallestMovedBytes,
              " bytes. Leave it off.");
  if (!options.speeds) {
    options.speeds = measure_speeds(trace.device, wanted);
  }
  return options;
}

/// Adds two plans that the solver might have thinned out.
void add_simple_plans(const StepTrace& trace,
                      const PlannerOptions& options,
                      std::vector<StepPlan>& plans) {
  const ChainCosts costs = costs_of(trace, options);
  int64_t extra_ns = 0;
  for (size_t i = 0; i < trace.regions.size(); ++i) {
    const BlockCosts& block = costs.block(i);
    extra_ns += full_replay_ns(block) + block.region_ns;
  }
  auto [full, plain] =
      simple_plans(trace, static_cast<double>(extra_ns) * kMilliseconds, options.counted());
  plans.push_back(std::move(full));
  plans.push_back(std::move(plain));
}

/// The plans that no other beats in both bytes and time, smallest first.
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

SimplePlans simple_plans(const StepTrace& trace, double full_extra_ms, Counted counted) {
  SimplePlans plans;
  for (const TracedRegion& region : trace.regions) {
    plans.full.decisions.push_back({.name = region.name});
    plans.plain.decisions.push_back({.name = region.name, .is_plain = true});
  }
  plans.full.peak_bytes = predict_peaks(trace, plans.full.decisions, counted).peak();
  plans.full.extra_ms = full_extra_ms;
  plans.plain.peak_bytes = predict_peaks(trace, plans.plain.decisions, counted).peak();
  return plans;
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
    // Added to the plans so far, so that permission to offload makes no budget slower.
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
