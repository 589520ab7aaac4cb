// The seam through which a plan decides about regions: while a planner is in force on a thread,
// every outermost region that begins there asks it. Regions inside one that was decided, and those
// that a recompute makes again, are not asked about. Not part of the public interface.
#pragma once

#include <reprise/detail/region.h>
#include <reprise/export.h>
#include <reprise/options.h>

#include <optional>
#include <utility>

namespace reprise::detail {

class REPRISE_API RegionPlanner {
 public:
  /// How the region that asked for `asked` shall run; nothing: plainly, as if it were no region.
  virtual std::optional<CheckpointOptions> plan(const CheckpointOptions& asked) = 0;

 protected:
  RegionPlanner();
  ~RegionPlanner();
};

REPRISE_API bool has_region_planner();

/// Puts a planner in force on this thread; null: none.
class REPRISE_API RegionPlannerGuard {
 public:
  explicit RegionPlannerGuard(RegionPlanner* planner);
  ~RegionPlannerGuard();
  RegionPlannerGuard(const RegionPlannerGuard&) = delete;
  RegionPlannerGuard& operator=(const RegionPlannerGuard&) = delete;

 private:
  RegionPlanner* previous_;
};

/// The decision about one region, asked for when it is made. No planner is in force while it lives.
class REPRISE_API PlannedRegion {
 public:
  explicit PlannedRegion(const CheckpointOptions& asked);

  /// Nothing: the region shall run plainly.
  const std::optional<CheckpointOptions>& options() const { return options_; }

 private:
  std::optional<CheckpointOptions> options_;
  RegionPlannerGuard inside_{nullptr};
};

template <class Fn, class... Args>
auto call_planned(const CheckpointOptions& asked, Fn&& fn, Args&&... args) {
  const PlannedRegion region(asked);
  if (!region.options()) {
    return call_plainly(std::forward<Fn>(fn), std::forward<Args>(args)...);
  }
  return call_recording(*region.options(), std::forward<Fn>(fn), std::forward<Args>(args)...);
}

}  // namespace reprise::detail
