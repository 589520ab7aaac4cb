// Lets the planner observe regions as they run.
//
// A listener hears of the regions of one thread: those whose forward begins there while its guard
// lives, and their recompute, which may run on a thread of the autograd engine, for as long as the
// listener exists. Regions of other threads report to their own listener, or to nobody. Without a
// listener, each check costs a region one thread-local load.
//
// Only non-reentrant regions are reported. A listener must not throw from packed, forward_ended and
// recompute_ended.
#pragma once

#include "checkpoint/ops/op_observer.h"

#include <reprise/options.h>

#include <ATen/core/Tensor.h>

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
  /// The recompute of `frame` begins, before the engine copies anything for it.
  virtual void recompute_begins(const Frame& frame) = 0;
  /// Its callable is about to run. Returns the observer of its operators, as forward_begins does.
  virtual OpObserver* recompute_runs(const Frame& frame, OpObserver* replayer) = 0;
  /// It has ended, and the engine has dropped what it copied.
  virtual void recompute_ended(const Frame& frame) = 0;

 protected:
  ~RegionListener() = default;
};

using ListenerPtr = std::shared_ptr<RegionListener>;

/// The listener of this thread, or null.
const ListenerPtr& region_listener();
/// Whether there is one.
bool has_region_listener();

/// Makes `listener` the listener of this thread for its scope; null: there is none.
class RegionListenerGuard {
 public:
  explicit RegionListenerGuard(ListenerPtr listener);
  ~RegionListenerGuard();
  RegionListenerGuard(const RegionListenerGuard&) = delete;
  RegionListenerGuard& operator=(const RegionListenerGuard&) = delete;

 private:
  ListenerPtr previous_;
};

/// Reports a recompute to the listener under which the frame was recorded, if it still exists.
class RecomputeNotice {
 public:
  RecomputeNotice(const Frame& frame, const std::weak_ptr<RegionListener>& listener);
  ~RecomputeNotice();
  RecomputeNotice(const RecomputeNotice&) = delete;
  RecomputeNotice& operator=(const RecomputeNotice&) = delete;

  /// The observer of the recompute's operators, which begins now.
  OpObserver* observer(OpObserver* replayer) const;

 private:
  const Frame& frame_;
  const ListenerPtr listener_;
};

}  // namespace reprise::detail
