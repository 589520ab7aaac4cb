#include "checkpoint/region_listener.h"

#include <c10/util/Exception.h>

namespace reprise::detail {

std::atomic<RegionListener*> RegionListener::current_{nullptr};

RegionListenerGuard::RegionListenerGuard(RegionListener* listener) {
  RegionListener* nobody = nullptr;
  TORCH_CHECK(RegionListener::current_.compare_exchange_strong(nobody, listener),
              "[reprise] a step is being traced already: trace one step at a time.");
}

RegionListenerGuard::~RegionListenerGuard() {
  RegionListener::current_.store(nullptr, std::memory_order_release);
}

RecomputeNotice::RecomputeNotice(const Frame& frame, OpObserver* replayer)
    : frame_(frame),
      listener_(region_listener()),
      observer_(listener_ == nullptr ? replayer : listener_->recompute_begins(frame, replayer)) {}

RecomputeNotice::~RecomputeNotice() {
  if (listener_ != nullptr) {
    listener_->recompute_ended(frame_);
  }
}

}  // namespace reprise::detail
