// Lets the planner observe regions as they run. There is at most one listener per process; without
// one, each check costs a region one atomic load.
//
// Only non-reentrant regions are reported. A listener may be called on threads of the autograd
// engine, and must not throw from forward_ended and recompute_ended.
#pragma once

#include "checkpoint/ops/op_observer.h"

#include <reprise/options.h>

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <vector>

namespace reprise::detail {

class Frame;

class RegionListener {
 public:
  /// The forward of `frame` begins. Returns the observer of its operators: `recorder` (null without
  /// a policy), or an observer that forwards to it.
  virtual OpObserver* forward_begins(const std::shared_ptr<Frame>& frame,
                                     const CheckpointOptions& options,
                                     const std::vector<at::Tensor>& inputs,
                                     OpObserver* recorder) = 0;
  /// Autograd has saved `tensor` in the forward of the region.
  virtual void packed(const Frame& frame, const at::Tensor& tensor) = 0;
  /// Forward has returned or thrown.
  virtual void forward_ended(const Frame& frame) = 0;
  /// The recompute of `frame` begins. Returns the observer of its operators, as forward_begins
  /// does.
  virtual OpObserver* recompute_begins(const Frame& frame, OpObserver* replayer) = 0;
  virtual void recompute_ended(const Frame& frame) = 0;

 protected:
  ~RegionListener() = default;

 private:
  friend RegionListener* region_listener();
  friend class RegionListenerGuard;
  static std::atomic<RegionListener*> current_;
};

/// The current listener, or null.
inline RegionListener* region_listener() {
  return RegionListener::current_.load(std::memory_order_acquire);
}

/// Installs `listener` for its scope. Throws if there is one already.
class RegionListenerGuard {
 public:
  explicit RegionListenerGuard(RegionListener* listener);
  ~RegionListenerGuard();
  RegionListenerGuard(const RegionListenerGuard&) = delete;
  RegionListenerGuard& operator=(const RegionListenerGuard&) = delete;
};

/// Reports a recompute to the listener for its scope.
class RecomputeNotice {
 public:
  RecomputeNotice(const Frame& frame, OpObserver* replayer);
  ~RecomputeNotice();
  RecomputeNotice(const RecomputeNotice&) = delete;
  RecomputeNotice& operator=(const RecomputeNotice&) = delete;

  /// The observer of the recompute's operators.
  OpObserver* observer() const { return observer_; }

 private:
  const Frame& frame_;
  RegionListener* listener_;
  OpObserver* observer_;
};

}  // namespace reprise::detail
