#include "train/budget/shape_curve.h"

#include <algorithm>

namespace reprise {

planning::PlannerOptions planner_options(const ModelPlanRequest& request) {
  const DeviceProfile& device = request.device;
  // Compressing reads a tensor and writes the compressed form; restoring does the reverse.
  constexpr double kPasses = 3, kNanoseconds = 1e9;
  const planning::Pace pace{.ns = 2 * device.launch_ns,
                            .ns_per_byte = kPasses * kNanoseconds / device.memory_speed};
  planning::PlannerOptions options;
  options.speeds = planning::DeviceSpeeds{
      .link = {.out_bytes_per_second = device.link_speed, .in_bytes_per_second = device.link_speed},
      .masks = pace,
      .floating = pace};
  if (request.world) {
    options.longest_segment = 1;  // sharded models join no blocks
  }
  return options;
}

ShapeCurve::ShapeCurve(MetaRun& run, const ModelPlanRequest& request, int64_t rows)
    : rows_(rows),
      predicted_(run.step(rows, request.length)),
      curve_(planning::StepPlanner(predicted_.trace, planner_options(request)).curve()),
      update_ms_(run.update_ms()),
      tokens_(static_cast<double>(run.tokens(rows, request.length) * request.accumulation)),
      accumulation_(static_cast<double>(request.accumulation)) {}

const planning::StepPlan& ShapeCurve::plan_for(int64_t budget) const {
  const auto too_large = std::find_if(
      curve_.begin() + 1, curve_.end(), [&](const auto& plan) { return plan.peak_bytes > budget; });
  return *(too_large - 1);
}

StepEstimate ShapeCurve::estimate(const planning::StepPlan& plan) const {
  constexpr double kSeconds = 1e-3;
  const auto ms = [&](double extra) {
    return (predicted_.plain_ms + extra) * accumulation_ + update_ms_;
  };
  StepEstimate step;
  step.rows = rows_;
  step.activation_bytes = plan.peak_bytes;
  step.step_ms = ms(plan.extra_ms);
  step.slowdown = step.step_ms / ms(0);
  step.tokens_per_second = tokens_ / (step.step_ms * kSeconds);
  size_t joined_end = 0;
  for (size_t i = 0; i < plan.decisions.size(); ++i) {
    const RegionDecision& decision = plan.decisions[i];
    joined_end = decision.joined > 0 ? i + decision.joined + 1 : joined_end;
    step.plain_blocks += decision.is_plain && i >= joined_end ? 1 : 0;
    step.mixed_blocks += !decision.is_plain && !decision.ops.empty() ? 1 : 0;
  }
  return step;
}

}  // namespace reprise
