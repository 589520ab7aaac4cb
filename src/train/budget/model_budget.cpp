#include "train/budget/model_budget.h"

#include <reprise/report/units.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace reprise {

namespace {

/// The activation bytes of a budget; `automatic` if it is auto.
int64_t bytes_of(const Budget& budget, const ShapeCurve& shape, int64_t automatic) {
  switch (budget.kind) {
    case Budget::Kind::Bytes:
      return budget.bytes;
    case Budget::Kind::Fraction:
      return std::llround(budget.fraction * static_cast<double>(shape.most_bytes()));
    case Budget::Kind::Min:
      return shape.least_bytes();
    case Budget::Kind::Max:
      return shape.most_bytes();
    case Budget::Kind::Auto:
      break;
  }
  return automatic;
}

std::string human(int64_t bytes) {
  return human_bytes(static_cast<double>(bytes));
}

}  // namespace

int64_t activation_budget(const ModelPlanRequest& request,
                          const ModelPlan& plan,
                          const ShapeCurve& shape) {
  const int64_t left = plan.device_bytes - plan.standing.sum();
  // In a run these count like activations: Note [Budgets of several processes].
  const int64_t passing = plan.standing.gathered + plan.standing.reductions;
  const auto& limits = request.limits;
  const auto check_device = [&](const char* what, int64_t bytes) {
    TORCH_CHECK(bytes <= request.device.memory_bytes,
                "[plan] a budget of ",
                human(bytes),
                " for ",
                what,
                " is more than the memory of ",
                request.device.name,
                ", ",
                human(request.device.memory_bytes));
  };
  if (limits.activations && limits.activations->kind == Budget::Kind::Bytes) {
    check_device("activations", limits.activations->bytes);
  }
  int64_t budget = left;
  if (limits.activations) {
    budget = bytes_of(*limits.activations, shape, left);
    budget -= limits.activations->kind == Budget::Kind::Bytes ? passing : 0;
  }
  if (limits.total) {
    const auto kind = limits.total->kind;
    TORCH_CHECK(kind == Budget::Kind::Bytes || kind == Budget::Kind::Auto,
                "[plan] the total budget must be bytes, such as 40GiB, or auto; got ",
                limits.total->describe());
    const int64_t total = kind == Budget::Kind::Bytes ? limits.total->bytes : plan.device_bytes;
    check_device("everything", total);
    budget = std::min(budget, total - plan.standing.sum());
  }
  const int64_t update = plan.standing.kept() + plan.standing.gradients + plan.standing.update;
  const bool moves = plan.host != Placement{};
  TORCH_CHECK_WITH(OutOfMemoryError,
                   !moves || update <= budget + plan.standing.sum(),
                   "[plan] no plan fits: an update takes ",
                   human(update),
                   ", and there are ",
                   human(budget + plan.standing.sum()),
                   " of ",
                   request.device.name,
                   "'s ",
                   human(request.device.memory_bytes),
                   ". Use `gradient_offload` and `optimizer_offload`, LoRA, or a larger budget.");
  const int64_t least = shape.least_bytes();
  const bool is_said = limits.activations && limits.activations->kind != Budget::Kind::Auto;
  TORCH_CHECK_WITH(
      OutOfMemoryError,
      budget >= least,
      "[plan] no plan fits: the activations of ",
      request.rows,
      " x ",
      request.length,
      " tokens take at least ",
      human(least),
      " (",
      least,
      "B), and ",
      is_said ? "the budget leaves " : "what is left for them is ",
      human(std::max<int64_t>(budget, 0)),
      "; everything else takes ",
      human(plan.standing.sum()),
      " of ",
      request.device.name,
      "'s ",
      human(request.device.memory_bytes),
      ". Use fewer or shorter rows, LoRA, more processes under fsdp, or a larger budget.");
  const int64_t taken = shape.plan_for(budget).peak_bytes + plan.standing.sum();
  TORCH_CHECK(taken <= request.device.memory_bytes,
              "[plan] a budget of ",
              human(budget),
              " for activations does not fit: with everything else the step takes ",
              human(taken),
              ", and ",
              request.device.name,
              " has ",
              human(request.device.memory_bytes),
              ". Use at most ",
              human(std::max<int64_t>(left, 0)));
  return budget;
}

}  // namespace reprise
