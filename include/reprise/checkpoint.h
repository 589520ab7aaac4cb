// Activation checkpointing for any LibTorch program.
//
//   auto y = reprise::checkpoint([block](at::Tensor x) { return block->forward(x); }, x);
//
// In forward the callable runs as usual, but the tensors that autograd saves inside it are dropped.
// Backward runs the callable again to recompute them. Loss and gradients are the same to the last
// bit. See docs/checkpointing.md for guarantees, limits and advice on the options.
#pragma once

#include <reprise/detail/planned_region.h>
#include <reprise/detail/region.h>
#include <reprise/export.h>
#include <reprise/ivalue_fields.h>
#include <reprise/options.h>
#include <reprise/tensor_fields.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace reprise {

/// Runs `fn(args...)` as a checkpointed region and returns its result.
///
/// The callable and the arguments are copied into the region and kept until backward. Whatever the
/// callable captures *by reference* must live that long, so capture tensors and module holders by
/// value. The callable must do the same work each time it runs; options.determinism_check verifies
/// that. If grad mode is off, this is an ordinary call without overhead.
template <class Fn, class... Args>
auto checkpoint(const CheckpointOptions& options, Fn&& fn, Args&&... args) {
  detail::check_arguments<Fn, Args...>();
  if (!detail::records_gradients()) {
    return detail::call_plainly(std::forward<Fn>(fn), std::forward<Args>(args)...);
  }
  if (detail::has_region_planner()) {
    return detail::call_planned(options, std::forward<Fn>(fn), std::forward<Args>(args)...);
  }
  if (options.use_reentrant) {
    return detail::call_reentrant(options, std::forward<Fn>(fn), std::forward<Args>(args)...);
  }
  return detail::call_recording(options, std::forward<Fn>(fn), std::forward<Args>(args)...);
}

/// The same with default options.
template <class Fn, class... Args>
requires(!std::is_same_v<std::remove_cvref_t<Fn>, CheckpointOptions>) auto checkpoint(
    Fn&& fn, Args&&... args) {
  return checkpoint(CheckpointOptions{}, std::forward<Fn>(fn), std::forward<Args>(args)...);
}

namespace detail {

/// Index of the first function of each segment, followed by `count`. Throws if `count` functions
/// cannot be divided into `segments`.
REPRISE_API std::vector<size_t> segment_starts(size_t count, size_t segments);

}  // namespace detail

/// Runs `functions` one after the other on `input`, divided into `segments` regions of equal
/// length. As in PyTorch, the last segment (which takes the remainder of the division) is not
/// checkpointed: its backward comes first, so recomputing it would save nothing.
template <class Fn, class T>
T checkpoint_sequential(const CheckpointOptions& options,
                        std::vector<Fn> functions,
                        size_t segments,
                        T input) {
  const auto starts = detail::segment_starts(functions.size(), segments);
  const auto run = [](const std::vector<Fn>& segment, T value) {
    for (const auto& function : segment) {
      auto fn = function;  // a copy, because the callable may change itself
      value = std::invoke(fn, std::move(value));
    }
    return value;
  };
  // A region holds the functions of its own segment only.
  const auto segment = [&](size_t i) {
    return std::vector<Fn>(functions.begin() + static_cast<std::ptrdiff_t>(starts[i]),
                           functions.begin() + static_cast<std::ptrdiff_t>(starts[i + 1]));
  };
  for (size_t i = 0; i + 2 < starts.size(); ++i) {
    const auto part = [run, functions_of_segment = segment(i)](T value) {
      return run(functions_of_segment, std::move(value));
    };
    input = checkpoint(options, part, std::move(input));
  }
  return run(segment(starts.size() - 2), std::move(input));
}

/// The same with default options.
template <class Fn, class T>
T checkpoint_sequential(std::vector<Fn> functions, size_t segments, T input) {
  return checkpoint_sequential(
      CheckpointOptions{}, std::move(functions), segments, std::move(input));
}

/// Whether this thread runs a region's callable again for a backward call: true in code that is
/// recomputed, and in whatever it calls on this thread.
REPRISE_API bool is_recomputing();

/// In its scope, decides for the regions whose forward begins on this thread whether their
/// recompute stops early, whatever their options say. Guards may be nested. Like PyTorch's
/// set_checkpoint_early_stop. Reentrant regions never stop early.
class REPRISE_API EarlyStopGuard {
 public:
  explicit EarlyStopGuard(bool enabled);
  ~EarlyStopGuard();
  EarlyStopGuard(const EarlyStopGuard&) = delete;
  EarlyStopGuard& operator=(const EarlyStopGuard&) = delete;

 private:
  std::optional<bool> previous_;
};

/// In its scope, several backward calls of this thread over disjoint parts of one graph share
/// recomputed tensors: each region is recomputed at most once. Otherwise every backward call
/// recomputes the regions it needs. Groups cannot be nested.
class REPRISE_API GraphExecGroup {
 public:
  GraphExecGroup();
  ~GraphExecGroup();
  GraphExecGroup(const GraphExecGroup&) = delete;
  GraphExecGroup& operator=(const GraphExecGroup&) = delete;

 private:
  uint64_t id_;
};

}  // namespace reprise
