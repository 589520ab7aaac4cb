#include "checkpoint/region_listener.h"

#include "checkpoint/hot_thread_local.h"

#include <utility>

namespace reprise::detail {
namespace {

thread_local ListenerPtr listener_of_thread;
REPRISE_HOT_THREAD_LOCAL bool is_listening = false;

}  // namespace

const ListenerPtr& region_listener() {
  return listener_of_thread;
}

bool has_region_listener() {
  return is_listening;
}

RegionListenerGuard::RegionListenerGuard(ListenerPtr listener)
    : previous_(std::exchange(listener_of_thread, std::move(listener))) {
  is_listening = listener_of_thread != nullptr;
}

RegionListenerGuard::~RegionListenerGuard() {
  listener_of_thread = std::move(previous_);
  is_listening = listener_of_thread != nullptr;
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
