// Which planner is in force on a thread, and what a region may not ask for under a plan.
#include <reprise/detail/planned_region.h>

#include <c10/util/Exception.h>

namespace reprise::detail {
namespace {

thread_local RegionPlanner* planner_in_force = nullptr;

void check_plannable(const CheckpointOptions& asked) {
  TORCH_CHECK(!asked.use_reentrant,
              "[plan] region \"",
              asked.name,
              "\" asks for use_reentrant, which has no decisions per operator, so a plan cannot "
              "cover it. Use the default variant.");
  TORCH_CHECK(asked.policy == nullptr,
              "[plan] region \"",
              asked.name,
              "\" has the policy ",
              asked.policy->describe(),
              ", which the plan would override. Leave it to the plan.");
  TORCH_CHECK(
      !asked.forward_scope && !asked.recompute_scope,
      "[plan] region \"",
      asked.name,
      "\" has a forward_scope or recompute_scope, which a plan that runs the region plainly "
      "or joins it with others cannot keep. Put the guard inside the callable.");
  TORCH_CHECK(!asked.offload_inputs,
              "[plan] region \"",
              asked.name,
              "\" asks for offload_inputs, which the plan decides about. Leave it off.");
  TORCH_CHECK(
      !asked.allow_lossy,
      "[plan] region \"",
      asked.name,
      "\" asks for allow_lossy, which the plan decides about. Leave it off and allow it when "
      "you plan.");
}

std::optional<CheckpointOptions> ask_planner(const CheckpointOptions& asked) {
  check_plannable(asked);
  return planner_in_force->plan(asked);
}

}  // namespace

RegionPlanner::RegionPlanner() = default;
RegionPlanner::~RegionPlanner() = default;

bool has_region_planner() {
  return planner_in_force != nullptr;
}

RegionPlannerGuard::RegionPlannerGuard(RegionPlanner* planner)
    : previous_(std::exchange(planner_in_force, planner)) {}

RegionPlannerGuard::~RegionPlannerGuard() {
  planner_in_force = previous_;
}

std::optional<JoinedRegions> ask_to_join(const std::vector<const CheckpointOptions*>& chain) {
  for (const auto* asked : chain) {
    check_plannable(*asked);
  }
  return planner_in_force->join(chain);
}

PlannedRegion::PlannedRegion(const CheckpointOptions& asked) : options_(ask_planner(asked)) {}

}  // namespace reprise::detail
