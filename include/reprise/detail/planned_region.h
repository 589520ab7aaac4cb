// How a plan decides about regions: while a planner is in force on a thread, every outermost region
// that begins there asks it. Regions inside a region that has asked, and regions that a recompute
// runs again, do not ask. Code that runs regions as a chain, where only the next region gets a
// region's result, asks about the chain first, because a plan may join several of them in one outer
// region. Not part of the public interface.
#pragma once

#include <reprise/detail/region.h>
#include <reprise/export.h>
#include <reprise/options.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace reprise::detail {

/// The first regions of a chain, to run inside one outer region that holds the input of the first.
struct JoinedRegions {
  CheckpointOptions outer;
  /// How each runs inside; std::nullopt: without checkpointing.
  std::vector<std::optional<CheckpointOptions>> inside;
};

/// Decides how the regions of a thread run.
class REPRISE_API RegionPlanner {
 public:
  /// The options to run a region with that asked for `asked`; std::nullopt: run it without
  /// checkpointing.
  virtual std::optional<CheckpointOptions> plan(const CheckpointOptions& asked) = 0;
  /// How many regions of `chain`, from the first on, are joined, and how they run; std::nullopt:
  /// none are, and the first region asks for itself.
  virtual std::optional<JoinedRegions> join(const std::vector<const CheckpointOptions*>& chain) = 0;

 protected:
  RegionPlanner();
  ~RegionPlanner();
};

/// Whether a planner is in force on this thread.
REPRISE_API bool has_region_planner();

/// Puts a planner in force on this thread while it lives; null: none.
class REPRISE_API RegionPlannerGuard {
 public:
  explicit RegionPlannerGuard(RegionPlanner* planner);
  ~RegionPlannerGuard();
  RegionPlannerGuard(const RegionPlannerGuard&) = delete;
  RegionPlannerGuard& operator=(const RegionPlannerGuard&) = delete;

 private:
  RegionPlanner* previous_;
};

/// Asks for the decision about one region when it is constructed. No planner is in force while it
/// lives.
class REPRISE_API PlannedRegion {
 public:
  explicit PlannedRegion(const CheckpointOptions& asked);

  /// std::nullopt: run without checkpointing.
  const std::optional<CheckpointOptions>& options() const { return options_; }

 private:
  std::optional<CheckpointOptions> options_;
  RegionPlannerGuard inside_{nullptr};
};

/// Asks about the rest of a chain: the options of the region that is about to run and of those that
/// follow directly. A planner must be in force.
REPRISE_API std::optional<JoinedRegions> ask_to_join(
    const std::vector<const CheckpointOptions*>& chain);

/// Runs `functions`, the callables of the joined regions, one after the other on `value`. Their
/// captures live until backward. A recompute repeats the same run: the decisions are captured too.
template <class Fn, class T>
T call_joined(const JoinedRegions& joined, std::vector<Fn> functions, T value) {
  const RegionPlannerGuard no_planner(nullptr);
  const auto run = [functions = std::move(functions), inside = joined.inside](T result) {
    for (size_t i = 0; i < functions.size(); ++i) {
      Fn fn = functions[i];  // a copy, because a call may change the callable
      result =
          inside[i] ? call_recording(*inside[i], fn, std::move(result)) : std::invoke(fn, result);
    }
    return result;
  };
  return call_recording(joined.outer, run, std::move(value));
}

/// Runs a region as the planner in force decides.
template <class Fn, class... Args>
auto call_planned(const CheckpointOptions& asked, Fn&& fn, Args&&... args) {
  const PlannedRegion region(asked);
  if (!region.options()) {
    return call_plainly(std::forward<Fn>(fn), std::forward<Args>(args)...);
  }
  return call_recording(*region.options(), std::forward<Fn>(fn), std::forward<Args>(args)...);
}

}  // namespace reprise::detail
