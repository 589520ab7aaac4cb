// The thread-local state of a region's forward, which its recompute needs too, perhaps on another
// thread: dispatch keys, autocast, the current device, rounding and flush-to-zero of the processor.
// The caller's state is restored afterwards.
#pragma once

#include <reprise/detail/planned_region.h>

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <cfenv>
#include <cstdint>
#include <optional>

namespace reprise::detail {

/// How the processor rounds, and whether it treats denormal numbers as zero.
class FloatMode {
 public:
  /// The mode of the calling thread.
  FloatMode();
  bool operator==(const FloatMode&) const = default;
  void apply() const;

 private:
  uint64_t bits_ = 0;
};

class ThreadState {
 public:
  /// Captures the state of the calling thread.
  ThreadState();

  bool has_autocast() const { return has_autocast_; }

 private:
  friend class ThreadStateGuard;

  struct Autocast {
    bool enabled;
    c10::ScalarType dtype;
  };
  static constexpr std::array<c10::DeviceType, 2> kAutocastDevices{c10::DeviceType::CPU,
                                                                   c10::DeviceType::CUDA};

  // Without the observer keys: the recompute starts as if there were no enclosing region.
  c10::impl::LocalDispatchKeySet dispatch_keys_;
  std::array<Autocast, 2> autocast_;
  bool has_autocast_ = false;
  bool autocast_cache_ = false;
  std::optional<c10::Device> device_;
  FloatMode float_mode_;
};

/// Applies a captured state for its scope, with grad mode on.
class ThreadStateGuard {
 public:
  explicit ThreadStateGuard(const ThreadState& state);
  ~ThreadStateGuard();
  ThreadStateGuard(const ThreadStateGuard&) = delete;
  ThreadStateGuard& operator=(const ThreadStateGuard&) = delete;

 private:
  void apply_autocast(const ThreadState& state) const;

  const bool changes_autocast_;
  // Before keys_, which it changes too. A backward call may run in inference mode.
  c10::InferenceMode no_inference_{false};
  // Before keys_: autocast's switch is itself a dispatch key, so the caller's state must be
  // captured first. It is restored with the keys.
  const ThreadState callers_;
  c10::impl::ForceDispatchKeyGuard keys_;
  at::AutoGradMode grad_mode_{true};
  c10::OptionalDeviceGuard device_;
  // No planner: regions inside a recompute were decided in forward.
  RegionPlannerGuard planner_{nullptr};
};

}  // namespace reprise::detail
