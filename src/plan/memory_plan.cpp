// The public interface of the planner: include/reprise/plan.h. Recording a step is in
// step_recording.cpp, and applying a plan in plan_guard.cpp.
#include "plan/memory_plan_state.h"

#include "memory/allocator_rounding.h"
#include "plan/plan_explanation.h"
#include "plan/step_timeline.h"
#include "plan/trace/trace_between.h"

#include <c10/util/Exception.h>

#include <optional>
#include <utility>

namespace reprise {

namespace planning {

void check_budget(int64_t bytes) {
  TORCH_CHECK(bytes > 0,
              "[plan] expected a budget of activation bytes above 0 (PlanOptions::budget), got ",
              bytes);
}

}  // namespace planning

namespace {

planning::PlannerOptions planner_options(const PlanOptions& options) {
  TORCH_CHECK(options.reserve >= 0 && (options.reserve == 0 || options.is_enforced),
              "[plan] expected a reserve of 0 bytes or more, and above 0 only with is_enforced");
  return {.host_bytes = options.host_budget,
          .allow_lossy = options.allow_lossy,
          .counts_gradients = options.counts_gradients};
}

}  // namespace

std::shared_ptr<MemoryPlan::State> MemoryPlan::State::of(planning::StepTrace traced,
                                                         planning::PlannerOptions options,
                                                         bool is_enforced,
                                                         int64_t reserve) {
  auto state = std::make_shared<State>();
  state->is_enforced = is_enforced;
  state->reserve = reserve;
  state->trace = std::make_shared<const planning::StepTrace>(std::move(traced));
  state->planner = std::make_shared<const planning::StepPlanner>(*state->trace, options);
  for (const planning::StepPlan& point : state->planner->curve()) {
    state->curve.push_back({.peak_bytes = point.peak_bytes, .extra_ms = point.extra_ms});
  }
  return state;
}

std::shared_ptr<MemoryPlan::State> MemoryPlan::State::of(planning::StepTrace traced,
                                                         const PlanOptions& options) {
  auto state =
      of(std::move(traced), planner_options(options), options.is_enforced, options.reserve);
  state->choose(options.budget);
  return state;
}

void MemoryPlan::State::choose(int64_t bytes) {
  planning::check_budget(bytes);
  const auto device = traced().device.type();
  const int64_t usable = is_enforced ? memory::planned_bytes(bytes - reserve, device) : bytes;
  TORCH_CHECK(!is_enforced || usable >= planner->least_bytes(),
              "[plan] no plan fits ",
              bytes,
              counted() == planning::Counted::WithGradients ? " bytes of activations and gradients"
                                                            : " bytes of activations",
              ": the least budget for this step is ",
              // A little more, so that it is also enough when the step is repeated.
              memory::budget_for(planner->least_bytes() * 129 / 128, device) + reserve,
              " bytes. Use that, a smaller batch or shorter rows.");
  budget = bytes;
  chosen = std::make_shared<const planning::StepPlan>(signed_plan(planner->plan_for(usable)));
  matching = planning::Matching::InOrder;
  step = planning::step_decisions(chosen->decisions);
}

MemoryPlan::MemoryPlan(std::shared_ptr<const State> state) : state_(std::move(state)) {}

int64_t MemoryPlan::budget() const {
  return state_->budget;
}

int64_t MemoryPlan::peak_bytes() const {
  return state_->chosen->peak_bytes;
}

int64_t MemoryPlan::host_bytes() const {
  return state_->chosen->host_bytes;
}

double MemoryPlan::extra_ms() const {
  return state_->chosen->extra_ms;
}

const std::vector<PlanPoint>& MemoryPlan::curve() const {
  return state_->curve;
}

const std::vector<RegionDecision>& MemoryPlan::decisions() const {
  return state_->chosen->decisions;
}

MemoryPlan MemoryPlan::of(std::vector<RegionDecision> decisions,
                          int64_t peak_bytes,
                          double extra_ms) {
  TORCH_CHECK(!decisions.empty(), "[plan] expected a decision for each region, found none");
  planning::check_budget(peak_bytes);
  auto state = std::make_shared<State>();
  state->budget = peak_bytes;
  state->step = planning::step_decisions(decisions);
  state->chosen = std::make_shared<const planning::StepPlan>(planning::StepPlan{
      .decisions = std::move(decisions), .peak_bytes = peak_bytes, .extra_ms = extra_ms});
  return MemoryPlan(std::move(state));
}

bool MemoryPlan::has_trace() const {
  return state_->trace != nullptr;
}

StepTimeline MemoryPlan::timeline() const {
  return planning::step_timeline(state_->traced(), decisions(), state_->counted());
}

StepTimeline MemoryPlan::plain_timeline() const {
  return planning::plain_timeline(state_->traced(), state_->counted());
}

std::vector<PlanRow> MemoryPlan::explain() const {
  return planning::explain_plan(state_->traced(), decisions(), budget(), state_->counted());
}

MemoryPlan MemoryPlan::with_budget(int64_t bytes) const {
  planning::check_budget(bytes);
  state_->traced();
  auto state = std::make_shared<State>(*state_);
  state->choose(bytes);
  return MemoryPlan(std::move(state));
}

MemoryPlan MemoryPlan::for_similar_steps() const {
  auto state = std::make_shared<State>(*state_);
  auto chosen = *state_->chosen;
  for (RegionDecision& decision : chosen.decisions) {
    TORCH_CHECK(decision.joined == 0,
                "[plan] this plan joins region \"",
                decision.name,
                "\" with those after it, which works only in the step that was planned.");
    decision.signature.reset();
  }
  state->matching = planning::Matching::ByName;
  state->step = planning::step_decisions(chosen.decisions, state->matching);
  state->chosen = std::make_shared<const planning::StepPlan>(std::move(chosen));
  return MemoryPlan(std::move(state));
}

std::optional<MemoryPlan> MemoryPlan::between(const MemoryPlan& from,
                                              const MemoryPlan& to,
                                              double share) {
  auto trace = planning::trace_between(from.state_->traced(), to.state_->traced(), share);
  if (!trace) {
    return std::nullopt;
  }
  auto options = to.state_->planner->options();
  options.must_have_effect = false;
  options.longest_segment = 1;  // similar steps join no regions
  auto state = State::of(std::move(*trace), options, to.state_->is_enforced, to.state_->reserve);
  state->choose(to.budget());
  return MemoryPlan(std::move(state)).for_similar_steps();
}

}  // namespace reprise
