// The seam through which a plan decides about regions: while a planner is in force on a thread,
// every outermost region that begins there asks it. Regions inside one that was decided, and those
// that a recompute makes again, are not asked about. Code that runs regions as a chain, where
// nobody but the next region gets a region's result, asks about the chain first: a plan may join
// some of them in one outer region. Not part of the public interface.
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

/// The first regions of a chain, to run inside one outer region that holds the first one's input.
struct JoinedRegions {
  CheckpointOptions outer;
  /// How each runs inside; nothing: plainly.
  std::vector<std::optional<CheckpointOptions>> inside;
};

class REPRISE_API RegionPlanner {
 public:
  /// How the region that asked for `asked` shall run; nothing: plainly, as if it were no region.
  virtual std::optional<CheckpointOptions> plan(const CheckpointOptions& asked) = 0;
  /// Which of `chain` shall be joined, from the first on; nothing: none, the first one is asked
  /// about by itself.
  virtual std::optional<JoinedRegions> join(const std::vector<const CheckpointOptions*>& chain) = 0;

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

/// Asks about the rest of a chain: the options of the region that is about to run and of those that
/// follow it at once. A planner has to be in force.
REPRISE_API std::optional<JoinedRegions> ask_to_join(
    const std::vector<const CheckpointOptions*>& chain);

/// Runs `functions`, the callables of the joined regions, one after the other on `value`. What they
/// capture lives until backward. A recompute does the same again: the decisions are captured too.
template <class Fn, class T>
T call_joined(const JoinedRegions& joined, std::vector<Fn> functions, T value) {
  const RegionPlannerGuard no_planner(nullptr);
  const auto run = [functions = std::move(functions), inside = joined.inside](T result) {
    for (size_t i = 0; i < functions.size(); ++i) {
      Fn fn = functions[i];  // a copy, which may change itself
      result =
          inside[i] ? call_recording(*inside[i], fn, std::move(result)) : std::invoke(fn, result);
    }
    return result;
  };
  return call_recording(joined.outer, run, std::move(value));
}

template <class Fn, class... Args>
auto call_planned(const CheckpointOptions& asked, Fn&& fn, Args&&... args) {
  const PlannedRegion region(asked);
  if (!region.options()) {
    return call_plainly(std::forward<Fn>(fn), std::forward<Args>(args)...);
  }
  return call_recording(*region.options(), std::forward<Fn>(fn), std::forward<Args>(args)...);
}

}  // namespace reprise::detail
