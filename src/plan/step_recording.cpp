// Plans from a step: run for its records alone, or while it runs for its results.
#include "plan/memory_plan_state.h"

#include "plan/trace/step_tracer.h"

#include <reprise/offload.h>

#include <c10/util/Exception.h>

#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace reprise {

namespace {

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

}  // namespace

MemoryPlan plan(const std::function<void()>& step, c10::Device device, const PlanOptions& options) {
  planning::check_budget(options.budget);
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
  planning::check_budget(options.budget);
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

}  // namespace reprise
