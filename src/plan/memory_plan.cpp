// The public interface of the planner: include/reprise/plan.h.
#include <reprise/plan.h>

#include "checkpoint/state/rng_state.h"
#include "memory/allocator_rounding.h"
#include "plan/decisions_guard.h"
#include "plan/plan_explanation.h"
#include "plan/step_meter.h"
#include "plan/step_planner.h"
#include "plan/step_timeline.h"
#include "plan/trace/step_trace.h"
#include "plan/trace/step_tracer.h"
#include "plan/trace/trace_between.h"

#include <reprise/offload.h>

#include <c10/util/Exception.h>

#include <optional>
#include <sstream>
#include <thread>
#include <utility>

namespace reprise {

namespace {

double mebibytes(int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(1_MiB);
}

void check_budget(int64_t bytes) {
  TORCH_CHECK(bytes > 0,
              "[plan] expected a budget of activation bytes above 0 (PlanOptions::budget), got ",
              bytes);
}

// Otherwise the engine would refuse to offload in the middle of a step.
void check_host_budget(int64_t bytes) {
  const int64_t most = offload_settings().host_budget;
  TORCH_CHECK(most == 0 || bytes <= most,
              "[plan] expected a host budget within the ",
              most,
              " bytes that set_offload_settings allows, got ",
              bytes,
              ": raise that one first, or plan with less.");
}

planning::PlannerOptions planner_options(const PlanOptions& options) {
  TORCH_CHECK(options.reserve >= 0 && (options.reserve == 0 || options.is_enforced),
              "[plan] expected a reserve of 0 bytes or more, and above 0 only with is_enforced");
  return {.host_bytes = options.host_budget,
          .allow_lossy = options.allow_lossy,
          .counts_gradients = options.counts_gradients};
}

/// The operators with that decision, each after a space.
std::string names_of(const RegionDecision& region, Decision decision) {
  std::string text;
  for (const OpDecision& op : region.ops) {
    if (op.decision == decision) {
      text += " " + op.name + (op.overload.empty() ? "" : "." + op.overload);
      text += op.call_index > 0 ? "#" + std::to_string(op.call_index + 1) : "";
    }
  }
  return text;
}

std::string text_of(const RegionDecision& decision) {
  if (decision.joined > 0) {
    return decision.is_plain ? "joined in one region, plain inside"
                             : "joined in one region, each a region inside";
  }
  if (decision.is_plain) {
    return "plain";
  }
  std::string text;
  const auto add = [&text](const char* what, const std::string& names) {
    if (!names.empty()) {
      text += (text.empty() ? "" : "; ") + std::string(what) + ":" + names;
    }
  };
  add("kept", names_of(decision, Decision::Keep));
  add("offloaded",
      names_of(decision, Decision::Offload) + (decision.offload_inputs ? " inputs" : ""));
  add(decision.allow_lossy ? "compressed (LOSSY)" : "compressed",
      names_of(decision, Decision::Compress));
  return text.empty() ? "all recomputed" : text;
}

}  // namespace

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
  check_budget(bytes);
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
  check_budget(peak_bytes);
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
  check_budget(bytes);
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

std::string MemoryPlan::describe() const {
  std::ostringstream text;
  text.precision(4);
  text << mebibytes(peak_bytes()) << " MiB of activations at the peak, budget "
       << mebibytes(budget()) << " MiB; ";
  if (host_bytes() > 0) {
    text << mebibytes(host_bytes()) << " MiB of host memory; ";
  }
  text << extra_ms() << " ms more than without checkpointing (predicted)\n";
  if (state_->chosen->is_lossy()) {
    text << "LOSSY: some results come back rounded, so gradients differ from plain training\n";
  }
  const auto& decisions = state_->chosen->decisions;
  for (size_t first = 0; first < decisions.size();) {
    size_t end = first + 1 + decisions[first].joined;
    while (decisions[first].joined == 0 && end < decisions.size() &&
           planning::decide_the_same(decisions[first], decisions[end])) {
      ++end;
    }
    const auto name = [&](size_t i) {
      return decisions[i].name.empty() ? "region " + std::to_string(i) : decisions[i].name;
    };
    text << "  " << name(first);
    if (end - first > 1) {
      text << " to " << name(end - 1);
    }
    text << ": " << text_of(decisions[first]) << "\n";
    first = end;
  }
  return text.str();
}

MemoryPlan plan(const std::function<void()>& step, c10::Device device, const PlanOptions& options) {
  check_budget(options.budget);
  check_host_budget(options.host_budget);
  return MemoryPlan(MemoryPlan::State::of(planning::trace_step(step, device), options));
}

struct StepRecording::State {
  std::shared_ptr<planning::StepTracer> tracer;
  std::thread::id thread = std::this_thread::get_id();
};

StepRecording::StepRecording(c10::Device device)
    : state_(std::make_unique<State>(State{std::make_shared<planning::StepTracer>(
          device, nullptr, planning::StepTracer::Effects::Lasting)})) {
  try {
    state_->tracer->begin();
  } catch (...) {
    state_->tracer->close();
    throw;
  }
}

StepRecording::~StepRecording() {
  if (state_ == nullptr || state_->tracer == nullptr) {
    return;
  }
  if (state_->thread == std::this_thread::get_id()) {
    state_->tracer->close();
  } else {
    static_cast<void>(state_.release());  // only its own thread could end it
  }
}

MemoryPlan StepRecording::plan(const PlanOptions& options) {
  TORCH_CHECK(state_->tracer != nullptr, "[plan] this step was planned already.");
  check_budget(options.budget);
  check_host_budget(options.host_budget);
  const auto tracer = std::exchange(state_->tracer, nullptr);
  std::optional<planning::StepTrace> trace;
  try {
    trace = tracer->end();
  } catch (...) {
    tracer->close();
    throw;
  }
  tracer->close();
  return MemoryPlan(MemoryPlan::State::of(std::move(*trace), options));
}

class PlanGuard::InForce {
 public:
  explicit InForce(std::shared_ptr<const MemoryPlan::State> state)
      : plan(std::move(state)), guard(plan->step, plan->matching) {
    const bool is_measured = plan->trace != nullptr &&
                             planning::StepMeter::can_measure(plan->trace->device) &&
                             !detail::is_capturing_graph();
    if (is_measured) {
      meter.emplace(plan->trace->device,
                    plan->counted() == planning::Counted::WithGradients
                        ? planning::StepMeter::Gradients::Counted
                        : planning::StepMeter::Gradients::SetAside,
                    plan->is_enforced ? plan->budget : planning::StepMeter::kNoLimit);
    }
  }

  void check_bytes() const {
    if (!meter) {
      return;
    }
    const int64_t peak = meter->peak();
    const int64_t most = plan->is_enforced
                             ? plan->budget
                             : memory::budget_for(plan->budget, plan->trace->device.type());
    TORCH_CHECK(peak <= most,
                "[plan] the step took ",
                peak,
                plan->counted() == planning::Counted::WithGradients
                    ? " bytes of activations and gradients"
                    : " bytes of activations",
                "; its budget is ",
                plan->budget,
                ", and ",
                plan->chosen->peak_bytes,
                " were predicted. Outside of its regions, the step is not the one that was "
                "planned: plan again.");
  }

  const std::shared_ptr<const MemoryPlan::State> plan;
  const std::thread::id thread = std::this_thread::get_id();
  planning::DecisionsGuard guard;
  std::optional<planning::StepMeter> meter;
};

PlanGuard::PlanGuard(const MemoryPlan& plan) : in_force_(std::make_unique<InForce>(plan.state_)) {}

PlanGuard::~PlanGuard() {
  if (in_force_->thread != std::this_thread::get_id()) {
    // What belongs to the other thread stays there, without effect: only that thread could remove
    // it.
    in_force_->guard.end();
    static_cast<void>(in_force_.release());
  }
}

int64_t PlanGuard::peak_bytes() const {
  return in_force_->meter ? in_force_->meter->peak() : 0;
}

void PlanGuard::finish() const {
  in_force_->guard.finish();
  in_force_->check_bytes();
}

}  // namespace reprise
