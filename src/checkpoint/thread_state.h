// What a region's forward finds in thread-local state and its recompute, perhaps on another thread,
// must find again: dispatch keys, autocast, the current device. The caller's own state comes back
// afterwards.
#pragma once

#include <reprise/detail/planned_region.h>

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/ScalarType.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <optional>

namespace reprise::detail {

class ThreadState {
 public:
  /// Takes the calling thread's state.
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

  // Without our observer keys: recompute starts as if no region were around it.
  c10::impl::LocalDispatchKeySet dispatch_keys_;
  std::array<Autocast, 2> autocast_;
  bool has_autocast_ = false;
  bool autocast_cache_ = false;
  std::optional<c10::Device> device_;
};

/// Puts a recorded state in force for its scope, with gradients on.
class ThreadStateGuard {
 public:
  explicit ThreadStateGuard(const ThreadState& state);
  ~ThreadStateGuard();
  ThreadStateGuard(const ThreadStateGuard&) = delete;
  ThreadStateGuard& operator=(const ThreadStateGuard&) = delete;

 private:
  void apply_autocast(const ThreadState& state) const;

  const bool changes_autocast_;
  // Before the keys: autocast's switch is itself a dispatch key, so its old state must be read
  // first and is restored with the keys.
  const ThreadState callers_;
  c10::impl::ForceDispatchKeyGuard keys_;
  at::AutoGradMode grad_mode_{true};
  c10::OptionalDeviceGuard device_;
  // What a recompute makes again was decided about in forward.
  RegionPlannerGuard planner_{nullptr};
};

}  // namespace reprise::detail
