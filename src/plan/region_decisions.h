// Puts a plan into effect: which regions of a step run plainly, and what the others hold, how and
// where.
//
// The regions of a step are matched with the plan by order of entry and checked by name; only
// outermost regions count, and what runs inside one belongs to its decision. A step that differs
// from the plan is an error.
#pragma once

#include <reprise/detail/planned_region.h>
#include <reprise/export.h>
#include <reprise/policy.h>
#include <reprise/region_decision.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise::planning {

/// A policy that follows `ops`. Operators of the list that a region did not run are an error when
/// its forward ends.
REPRISE_API std::shared_ptr<const Policy> planned_policy(std::vector<OpDecision> ops);

/// A decision with the policy that carries it out.
struct PlannedRegion {
  RegionDecision decision;
  std::shared_ptr<const Policy> policy;  ///< null: everything is computed again
};

/// Made once for all steps that follow it.
using PlannedStep = std::shared_ptr<const std::vector<PlannedRegion>>;
REPRISE_API PlannedStep planned_step(std::vector<RegionDecision> decisions);

/// In force on its thread while it lives: around one forward, or around forward and backward.
class REPRISE_API PlanGuard final : detail::RegionPlanner {
 public:
  explicit PlanGuard(PlannedStep step);
  ~PlanGuard();
  PlanGuard(const PlanGuard&) = delete;
  PlanGuard& operator=(const PlanGuard&) = delete;

  /// The step's forward is over: throws if it ran fewer regions than planned. Without this call a
  /// plan for more regions than there are goes unnoticed, since a destructor cannot throw.
  void finish() const;

 private:
  std::optional<CheckpointOptions> plan(const CheckpointOptions& asked) override;
  std::optional<detail::JoinedRegions> join(
      const std::vector<const CheckpointOptions*>& chain) override;
  /// The next region of the plan, which has to be the one that asks.
  const PlannedRegion& enter(const CheckpointOptions& asked);
  std::string planned_names() const;

  const PlannedStep planned_;
  size_t entered_ = 0;
  detail::RegionPlannerGuard in_force_;
};

/// Runs `step` with a PlanGuard and finish().
REPRISE_API void run_planned(std::vector<RegionDecision> decisions,
                             const std::function<void()>& step);

}  // namespace reprise::planning
