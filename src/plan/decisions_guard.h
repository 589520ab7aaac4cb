// Puts decisions into effect: which regions of a step run plainly, and what the others keep.
//
// The regions of a step are matched with the decisions by order of entry and checked by name. Only
// outermost regions count; whatever runs inside one belongs to its decision. A step that differs
// from the decisions is an error, also if a region is called with other shapes than planned or does
// other work (region_check.h), where a decision has a signature. Matching::ByName is for steps that
// are only similar: regions may be missing, and those that were not planned recompute everything.
#pragma once

#include "checkpoint/region_listener.h"
#include "plan/region_check.h"

#include <reprise/detail/planned_region.h>
#include <reprise/export.h>
#include <reprise/policy.h>
#include <reprise/region_decision.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise::planning {

/// A policy that follows `ops`. If a region's forward ends without having run all of them, that is
/// an error.
REPRISE_API std::shared_ptr<const Policy> policy_of(std::vector<OpDecision> ops);

/// A decision with the policy that carries it out.
struct DecidedRegion {
  RegionDecision decision;
  std::shared_ptr<const Policy> policy;  ///< null: everything is recomputed
};

enum class Matching : uint8_t {
  InOrder,  ///< every region as planned
  ByName,   ///< the n-th region of a name as the n-th planned one of that name, if there is one
};

/// The decisions about one step, checked once and then used for every step like it.
using StepDecisions = std::shared_ptr<const std::vector<DecidedRegion>>;
REPRISE_API StepDecisions step_decisions(std::vector<RegionDecision> decisions,
                                         Matching matching = Matching::InOrder);

/// Applies the decisions on its thread while it lives: around one forward, or around forward and
/// backward.
class REPRISE_API DecisionsGuard final : detail::RegionPlanner {
 public:
  explicit DecisionsGuard(StepDecisions step, Matching matching = Matching::InOrder);
  ~DecisionsGuard();
  DecisionsGuard(const DecisionsGuard&) = delete;
  DecisionsGuard& operator=(const DecisionsGuard&) = delete;

  /// Call when the step's forward is over: throws if it ran fewer regions than were decided about.
  /// Without this call that goes unnoticed, since a destructor cannot throw.
  void finish() const;
  /// Ends its effect, also from another thread. Its destructor must still run on its own.
  void end() { in_force_.end(); }

 private:
  std::optional<CheckpointOptions> plan(const CheckpointOptions& asked,
                                        const std::vector<at::Tensor>& inputs) override;
  std::optional<detail::JoinedRegions> join(
      const std::vector<const CheckpointOptions*>& chain) override;
  void joined_begins(size_t index, const std::vector<at::Tensor>& inputs) override;
  void ended(size_t saves) override;
  /// Compares the arguments of a region.
  void begin(const RegionDecision& planned,
             const std::vector<at::Tensor>& inputs,
             RegionCheck::Arguments which);
  /// The next region of the step. Throws unless it is the one that asks.
  const DecidedRegion& enter(const CheckpointOptions& asked);
  /// The next region of that name; null if no more were planned.
  const DecidedRegion* find(const std::string& name);
  std::string names() const;

  const StepDecisions step_;
  const Matching matching_;
  std::map<std::string, size_t> searched_;  // by name: where to look for the next one
  size_t entered_ = 0;
  size_t first_joined_ = 0;  // of the regions that were joined last
  const std::shared_ptr<RegionCheck> check_ = std::make_shared<RegionCheck>();
  const detail::RegionListenerGuard listening_;
  detail::RegionPlannerGuard in_force_;
};

}  // namespace reprise::planning
