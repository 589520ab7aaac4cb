#include "plan/step_planner.h"

#include "plan/cost/decided_trace.h"
#include "plan/cost/joined_regions.h"
#include "plan/cost/trace_costs.h"
#include "plan/cost/trace_peaks.h"
#include "plan/solve/chain_decisions.h"
#include "plan/solve/chain_solver.h"

#include <reprise/offload.h>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace reprise::planning {

namespace {

constexpr double kMilliseconds = 1e-6;  // of a nanosecond

/// A plan by indices. Only those that end up on the curve get names.
struct Candidate {
  std::vector<TracedDecision> decisions;
  double extra_ms = 0;
  int64_t peak_bytes = 0;
  int64_t host_bytes = 0;
};

bool has_joined(const std::vector<UnitPlan>& units) {
  return std::any_of(
      units.begin(), units.end(), [](const UnitPlan& unit) { return unit.blocks > 1; });
}

double milliseconds(int64_t ns) {
  return static_cast<double>(ns) * kMilliseconds;
}

/// Adds the plans of the solver's curve. If segments may be longer than one block, only plans that
/// join some.
void add_plans(const ChainCosts& costs,
               const PlannerOptions& options,
               size_t longest_segment,
               std::vector<Candidate>& plans) {
  SolverOptions solving;
  solving.allow_offload = options.host_bytes > 0;
  solving.allow_lossy = options.allow_lossy;
  solving.host_limit = options.host_bytes;
  solving.longest_segment = longest_segment;
  const ChainSolver solver(costs, solving);
  for (size_t point = 0; point < solver.curve().size(); ++point) {
    const auto units = solver.units_at(point);
    if (longest_segment == 1 || has_joined(units)) {
      plans.push_back({.decisions = traced_decisions(costs, units),
                       .extra_ms = milliseconds(solver.curve()[point].extra_ns)});
    }
  }
}

/// Plans with outer regions get a search of their own: in a common one, their number would make the
/// solver thin out the plans of single regions.
void add_joined_plans(const StepTrace& trace,
                      ChainCosts costs,
                      const PlannerOptions& options,
                      std::vector<Candidate>& plans) {
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
  add_plans(costs, options, longest, plans);
}

/// Counts candidates on the trace, each by itself, so the number of threads changes nothing.
void count(const StepTrace& trace, Counted counted, std::vector<Candidate>& plans) {
  constexpr int64_t kPerTask = 32;
  at::parallel_for(0, std::ssize(plans), kPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Candidate& plan = plans[static_cast<size_t>(i)];
      const StepPeaks peaks = predict_peaks(trace, plan.decisions, counted);
      plan.peak_bytes = peaks.peak();
      plan.host_bytes = peaks.host;
    }
  });
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

/// Adds two plans that the solver might have thinned out: every region recomputed, and none.
void add_simple_plans(const ChainCosts& costs, std::vector<Candidate>& plans) {
  const size_t count = costs.blocks.size();
  int64_t extra_ns = 0;
  for (size_t i = 0; i < count; ++i) {
    extra_ns += full_replay_ns(costs.block(i)) + costs.block(i).region_ns;
  }
  plans.push_back(
      {.decisions = std::vector<TracedDecision>(count), .extra_ms = milliseconds(extra_ns)});
  plans.push_back(
      {.decisions = std::vector<TracedDecision>(count, TracedDecision{.is_plain = true})});
}

/// The plans within the host's limit that no other beats in both bytes and time, smallest first.
std::vector<StepPlan> unbeaten(const StepTrace& trace,
                               std::vector<Candidate> plans,
                               int64_t host_bytes) {
  std::erase_if(plans, [&](const Candidate& plan) { return plan.host_bytes > host_bytes; });
  std::stable_sort(plans.begin(), plans.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.peak_bytes, a.extra_ms, a.host_bytes) <
           std::tie(b.peak_bytes, b.extra_ms, b.host_bytes);
  });
  std::vector<StepPlan> best;
  for (const Candidate& plan : plans) {
    if (best.empty() || plan.extra_ms < best.back().extra_ms) {
      best.push_back({.decisions = decisions_of(trace, plan.decisions),
                      .peak_bytes = plan.peak_bytes,
                      .host_bytes = plan.host_bytes,
                      .extra_ms = plan.extra_ms});
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
  const ChainCosts costs = costs_of(trace, narrow);
  std::vector<Candidate> plans;
  add_plans(costs, narrow, 1, plans);
  add_simple_plans(costs, plans);
  add_joined_plans(trace, costs, narrow, plans);
  if (options_.host_bytes > 0 || options_.allow_lossy) {
    // Added to the plans so far, so that permission to offload makes no budget slower.
    add_plans(costs_of(trace, options_), options_, 1, plans);
  }
  count(trace, options_.counted(), plans);
  curve_ = unbeaten(trace, std::move(plans), options_.host_bytes);
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
