// What a region stores for its recompute, whether it is reentrant or not.
#pragma once

#include "checkpoint/live_tensors.h"
#include "checkpoint/state/draw_log.h"
#include "checkpoint/state/once_log.h"
#include "checkpoint/state/process_globals.h"
#include "checkpoint/state/read_log.h"
#include "checkpoint/state/rng_state.h"
#include "checkpoint/state/saved_inputs.h"
#include "checkpoint/state/tensor_log.h"
#include "checkpoint/state/thread_state.h"
#include "checkpoint/state/write_log.h"
#include "checkpoint/thread_switches.h"

#include <reprise/detail/region.h>
#include <reprise/options.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

namespace reprise::detail {

struct Region {
  /// Captures the state of the calling thread, which is about to run forward.
  Region(const CheckpointOptions& region_options,
         std::unique_ptr<RegionBody> region_body,
         const std::vector<at::Tensor>& region_inputs);

  /// Call after forward. Throws if it modified an input so that the region cannot be run again.
  /// `is_kept`: whether a policy keeps a result in that storage.
  void complete_forward(bool will_run_again,
                        const std::function<bool(const c10::StorageImpl*)>& is_kept);

  /// Forgets reads and writes of results that a policy keeps: they belong to the region.
  void forget_kept(const std::function<bool(const c10::StorageImpl*)>& is_kept);

  /// Throws if `tensor`, which is `what` of the region, is fake: Note [Fake tensors].
  void check_real(const at::Tensor& tensor, std::string_view what) const;
  /// Throws if this thread is in a mode, or an input is a tensor, that a region cannot work with.
  void check_start(const std::vector<at::Tensor>& region_inputs) const;
  /// Throws if an option has no effect here.
  void check_options() const;
  /// Throws if allow_lossy had no effect: the policy wanted no floating-point result compressed.
  void check_lossy(bool was_lossy) const;
  /// Throws if process-wide settings have changed since forward.
  void check_globals() const;
  /// Throws if an input was modified in place since forward. Call it while the writes of forward
  /// are undone.
  void check_inputs() const;

  /// Throws if a tensor that a recompute has read was changed since forward.
  void check_reads(const ReadCheck& now) const;
  /// A recompute is about to write `target`. Throws if that is known to be a write that forward did
  /// not do: Note [Writes that forward did not do].
  void check_write_again(const at::Tensor& target, WriteUndo& undo) const;

  /// The region can never be run again. Frees the callable, because what it captures may own the
  /// graph that owns this region.
  void abandon() { body.reset(); }
  void check_not_abandoned() const;

  /// Throws if the region is captured into a CUDA graph with options that need the host.
  void check_capturable() const;

  /// The region in messages: its name, or the type of its callable.
  std::string label() const;

  /// In its scope, what operators make is noted as the region's; null without a LiveTensorReport.
  std::unique_ptr<LiveRegionGuard> enter_live() const;

  /// Empty without such a function.
  static std::shared_ptr<void> enter(const ScopeMaker& scope) { return scope ? scope() : nullptr; }

  const CheckpointOptions options;
  const std::weak_ptr<LiveTensors> live = live_tensors();
  std::unique_ptr<RegionBody> body;
  const std::type_info& callable;
  SavedInputs inputs;
  const ThreadState thread_state;
  const ProcessGlobals globals;
  std::optional<bool> early_stop_in_scope = detail::early_stop_in_scope();
  std::optional<DrawLog> draws;  // unless random state is not preserved
  RngState listed;               // CheckpointOptions::generators
  OnceLog once;
  ReadLog reads;
  WriteLog write_log;
  TensorLog tensor_log;
};

/// The region did something that cannot be repeated.
class UnrepeatableError final : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

/// Rethrows the current exception with the region's name, as a type that the autograd engine can
/// propagate: on its threads, anything but a std::exception would terminate the process.
[[noreturn]] void rethrow_naming(const Region& region);

}  // namespace reprise::detail
