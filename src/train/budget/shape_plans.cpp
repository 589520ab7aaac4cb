#include "train/budget/shape_plans.h"

#include "plan/trace/trace_between.h"

#include <cmath>
#include <utility>

namespace reprise {

namespace {

// Between two traces, plans are made at multiples of an eighth of the way.
constexpr double kStepsBetween = 8;
// A plan is used for shapes that have at least this share of its tokens.
constexpr double kLeastShare = 0.85;

bool suits(const BatchShape& planned, const BatchShape& wanted) {
  return planned.covers(wanted) && wanted.tokens() >= kLeastShare * planned.tokens();
}

}  // namespace

std::vector<RegionDecision> ShapePlan::decisions() const {
  std::vector<RegionDecision> decisions;
  for (const auto& region : *step) {
    decisions.push_back(region.decision);
  }
  return decisions;
}

void ShapePlans::add(ShapePlan plan) {
  plans_.push_back(std::make_unique<ShapePlan>(std::move(plan)));
}

ShapePlan* ShapePlans::find(const BatchShape& shape, bool has_gradients) const {
  ShapePlan* best = nullptr;
  for (const auto& plan : plans_) {
    const bool is_closer = best == nullptr || plan->shape.tokens() < best->shape.tokens();
    if (plan->has_gradients == has_gradients && suits(plan->shape, shape) && is_closer) {
      best = plan.get();
    }
  }
  return best;
}

std::optional<ShapePlans::Traced> ShapePlans::interpolated(const BatchShape& shape) const {
  for (const Traced& from : traces_) {
    for (const Traced& to : traces_) {
      const double way = BatchShape::way(from.shape, to.shape, shape);
      if (way > 1) {
        continue;
      }
      const double share = std::ceil(way * kStepsBetween) / kStepsBetween;
      auto planned = BatchShape::between(from.shape, to.shape, share);
      if (!suits(planned, shape)) {
        continue;
      }
      if (share == 0) {
        return from;
      }
      if (auto trace = planning::trace_between(*from.trace, *to.trace, share)) {
        return Traced{std::move(planned),
                      std::make_shared<const planning::StepTrace>(std::move(*trace))};
      }
    }
  }
  return std::nullopt;
}

ShapePlan& ShapePlans::plan_for(const BatchShape& shape, bool has_gradients, const Trace& trace) {
  if (auto* known = find(shape, has_gradients)) {
    return *known;
  }
  auto traced = interpolated(shape);
  if (!traced) {
    traced = Traced{shape, std::make_shared<const planning::StepTrace>(trace())};
    traces_.push_back(*traced);
  }
  auto plan = plan_(traced->trace, has_gradients);
  plan.shape = std::move(traced->shape);
  plan.has_gradients = has_gradients;
  add(std::move(plan));
  return *plans_.back();
}

}  // namespace reprise
