// A plan in effect: its decisions, and a check of the bytes that the step takes.
#include "plan/memory_plan_state.h"

#include "checkpoint/state/rng_state.h"
#include "memory/allocator_rounding.h"
#include "plan/decisions_guard.h"
#include "plan/step_meter.h"

#include <c10/util/Exception.h>

#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace reprise {

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
