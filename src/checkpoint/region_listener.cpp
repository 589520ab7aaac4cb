#include "checkpoint/region_listener.h"

#include <utility>

namespace reprise::detail {
namespace {

thread_local ListenerPtr listener_of_thread;

}  // namespace

const ListenerPtr& region_listener() {
  return listener_of_thread;
}

RegionListenerGuard::RegionListenerGuard(ListenerPtr listener)
    : previous_(std::exchange(listener_of_thread, std::move(listener))) {}

RegionListenerGuard::~RegionListenerGuard() {
  listener_of_thread = std::move(previous_);
}

RecomputeNotice::RecomputeNotice(const Frame& frame, const std::weak_ptr<RegionListener>& listener)
    : frame_(frame), listener_(listener.lock()) {
  if (listener_ != nullptr) {
    listener_->recompute_begins(frame_);
  }
}

RecomputeNotice::~RecomputeNotice() {
  if (listener_ != nullptr) {
    listener_->recompute_ended(frame_);
  }
}

OpObserver* RecomputeNotice::observer(OpObserver* replayer) const {
  return listener_ == nullptr ? replayer : listener_->recompute_runs(frame_, replayer);
}

}  // namespace reprise::detail
