// Where the planner hears of regions as they run. One listener per process at a time; without one,
// a region pays one load per question.
//
// Only non-reentrant regions are told of. A listener may be called on the threads of the autograd
// engine, and must not throw from the calls that end something.
#pragma once

#include "checkpoint/op_observer.h"

#include <reprise/options.h>

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <vector>

namespace reprise::detail {

class Frame;

class RegionListener {
 public:
  /// Forward of `frame` begins. Returns who observes its operators: `recorder` (null without a
  /// policy), or somebody who calls `recorder` in turn.
  virtual OpObserver* forward_begins(const std::shared_ptr<Frame>& frame,
                                     const CheckpointOptions& options,
                                     const std::vector<at::Tensor>& inputs,
                                     OpObserver* recorder) = 0;
  /// Autograd has saved `tensor` in the region's forward.
  virtual void packed(const Frame& frame, const at::Tensor& tensor) = 0;
  /// Forward has returned or thrown.
  virtual void forward_ended(const Frame& frame) = 0;
  /// As forward_begins.
  virtual OpObserver* recompute_begins(const Frame& frame, OpObserver* replayer) = 0;
  virtual void recompute_ended(const Frame& frame) = 0;

 protected:
  ~RegionListener() = default;

 private:
  friend RegionListener* region_listener();
  friend class RegionListenerGuard;
  static std::atomic<RegionListener*> current_;
};

/// Null: nobody listens.
inline RegionListener* region_listener() {
  return RegionListener::current_.load(std::memory_order_acquire);
}

/// Makes `listener` listen. Throws if another one does.
class RegionListenerGuard {
 public:
  explicit RegionListenerGuard(RegionListener* listener);
  ~RegionListenerGuard();
  RegionListenerGuard(const RegionListenerGuard&) = delete;
  RegionListenerGuard& operator=(const RegionListenerGuard&) = delete;
};

/// Tells the listener that a recompute runs while it lives.
class RecomputeNotice {
 public:
  RecomputeNotice(const Frame& frame, OpObserver* replayer);
  ~RecomputeNotice();
  RecomputeNotice(const RecomputeNotice&) = delete;
  RecomputeNotice& operator=(const RecomputeNotice&) = delete;

  /// Who observes the recompute's operators.
  OpObserver* observer() const { return observer_; }

 private:
  const Frame& frame_;
  RegionListener* listener_;
  OpObserver* observer_;
};

}  // namespace reprise::detail
