// How a plan decides about regions: while a planner is in force on a thread, every outermost region
// that begins there asks it. Regions inside a region that has asked, and regions that a recompute
// runs again, do not ask. Code that runs regions as a chain, where only the next region gets a
// region's result, asks about the chain first, because a plan may join several of them in one outer
// region. The planner is also told what each region is called with and how much it saved, because a
// plan holds for one step only. Not part of the public interface.
#pragma once

#include <reprise/detail/region.h>
#include <reprise/export.h>
#include <reprise/options.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace reprise::detail {

class SaveCounter;

/// The first regions of a chain, to run inside one outer region that holds the input of the first.
struct JoinedRegions {
  CheckpointOptions outer;
  /// How each runs inside; std::nullopt: without checkpointing.
  std::vector<std::optional<CheckpointOptions>> inside;
};

/// Decides how the regions of a thread run.
class REPRISE_API RegionPlanner {
 public:
  /// The options to run a region with that asked for `asked` and is called with `inputs`;
  /// std::nullopt: run it without checkpointing.
  virtual std::optional<CheckpointOptions> plan(const CheckpointOptions& asked,
                                                const std::vector<at::Tensor>& inputs) = 0;
  /// How many regions of `chain`, from the first on, are joined, and how they run; std::nullopt:
  /// none are, and the first region asks for itself.
  virtual std::optional<JoinedRegions> join(const std::vector<const CheckpointOptions*>& chain) = 0;
  /// Region `index` of those that were joined last is called with `inputs`.
  virtual void joined_begins(size_t index, const std::vector<at::Tensor>& inputs) = 0;
  /// The forward of the region that was planned or begun last has returned. Autograd has saved
  /// `saves` tensors in it (SaveCounter). May throw.
  virtual void ended(size_t saves) = 0;

 protected:
  RegionPlanner();
  ~RegionPlanner();
};

/// Whether a planner is in force on this thread.
REPRISE_API bool has_region_planner();

/// Puts a planner in force on this thread while it lives; null: none. If it is destroyed on another
/// thread, the planner is no longer in force either.
class REPRISE_API RegionPlannerGuard {
 public:
  explicit RegionPlannerGuard(RegionPlanner* planner);
  ~RegionPlannerGuard();
  RegionPlannerGuard(const RegionPlannerGuard&) = delete;
  RegionPlannerGuard& operator=(const RegionPlannerGuard&) = delete;

  /// Ends its effect now.
  void end();

  struct Entry;

 private:
  std::shared_ptr<Entry> entry_;
};

/// Asks for the decision about one region when it is constructed. No planner is in force while it
/// lives.
class REPRISE_API PlannedRegion {
 public:
  PlannedRegion(const CheckpointOptions& asked, const std::vector<at::Tensor>& inputs);
  ~PlannedRegion();
  PlannedRegion(const PlannedRegion&) = delete;
  PlannedRegion& operator=(const PlannedRegion&) = delete;

  /// std::nullopt: run without checkpointing.
  const std::optional<CheckpointOptions>& options() const { return options_; }
  /// Call when the region's forward has returned. Throws if it was not the planned one.
  void complete();

 private:
  RegionPlanner& planner_;
  std::optional<CheckpointOptions> options_;
  RegionPlannerGuard inside_{nullptr};
  std::unique_ptr<SaveCounter> saves_;
};

/// The forward of joined regions. No planner is in force while it lives.
class REPRISE_API JoinedScope {
 public:
  JoinedScope();
  ~JoinedScope();
  JoinedScope(const JoinedScope&) = delete;
  JoinedScope& operator=(const JoinedScope&) = delete;

 private:
  RegionPlanner* previous_;
  RegionPlannerGuard inside_{nullptr};
};

/// One of the joined regions. Only their forward is reported: in a recompute nothing happens.
class REPRISE_API JoinedPart {
 public:
  enum class Runs : uint8_t { Plainly, AsRegion };
  JoinedPart(size_t index, Runs runs, const std::vector<at::Tensor>& inputs);
  ~JoinedPart();
  JoinedPart(const JoinedPart&) = delete;
  JoinedPart& operator=(const JoinedPart&) = delete;

  /// As PlannedRegion::complete.
  void complete();

 private:
  RegionPlanner* planner_;  // null in a recompute
  std::unique_ptr<SaveCounter> saves_;
};

/// Asks about the rest of a chain: the options of the region that is about to run and of those that
/// follow directly. A planner must be in force.
REPRISE_API std::optional<JoinedRegions> ask_to_join(
    const std::vector<const CheckpointOptions*>& chain);

/// Runs `functions`, the callables of the joined regions, one after the other on `value`. Their
/// captures live until backward. A recompute repeats the same run: the decisions are captured too.
template <class Fn, class T>
T call_joined(const JoinedRegions& joined, std::vector<Fn> functions, T value) {
  const JoinedScope scope;
  const auto run = [functions = std::move(functions), inside = joined.inside](T result) {
    for (size_t i = 0; i < functions.size(); ++i) {
      Fn fn = functions[i];  // a copy, because a call may change the callable
      JoinedPart part(i,
                      inside[i] ? JoinedPart::Runs::AsRegion : JoinedPart::Runs::Plainly,
                      list_tensors(result));
      result =
          inside[i] ? call_recording(*inside[i], fn, std::move(result)) : std::invoke(fn, result);
      part.complete();
    }
    return result;
  };
  return call_recording(joined.outer, run, std::move(value));
}

/// Runs a region as the planner in force decides.
template <class Fn, class... Args>
auto call_planned(const CheckpointOptions& asked, Fn&& fn, Args&&... args) {
  std::tuple<std::decay_t<Args>...> arguments(std::forward<Args>(args)...);
  // The list is dropped before the region runs, so that it keeps no argument alive.
  PlannedRegion region(asked, list_tensors(arguments));
  const auto call = [&](auto&... values) {
    return region.options() ? call_recording(*region.options(), fn, std::move(values)...)
                            : call_plainly(fn, std::move(values)...);
  };
  if constexpr (std::is_void_v<decltype(std::apply(call, arguments))>) {
    std::apply(call, arguments);
    region.complete();
  } else {
    auto result = std::apply(call, arguments);
    region.complete();
    return result;
  }
}

}  // namespace reprise::detail
