// Note [How a device's allocations are observed]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Caching allocators report every allocation, with the live bytes, to the thread's profiler, which
// autograd's threads inherit from the one that calls backward(). A watch is installed as a disabled
// profiler. A block that it refuses is leaked, because the allocator has not returned it to anybody
// yet: one block, in a process that has exceeded its budget.
#include "memory/allocation_watch.h"

#include <reprise/memory.h>

#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/profiler/orchestration/observer.h>

#include <algorithm>

namespace reprise::memory {

void WatchedBytes::begin(int64_t floor, int64_t limit) {
  floor_.store(floor, std::memory_order_relaxed);
  limit_.store(limit, std::memory_order_relaxed);
  most_.store(0, std::memory_order_relaxed);
  is_on_.store(true, std::memory_order_release);
}

bool WatchedBytes::admits(int64_t live) {
  const int64_t above = live - floor();
  if (above > limit_.load(std::memory_order_relaxed)) {
    return false;
  }
  int64_t seen = most();
  while (above > seen && !most_.compare_exchange_weak(seen, above, std::memory_order_relaxed)) {
  }
  return true;
}

void WatchedBytes::refuse(int64_t bytes, int64_t live, c10::Device device) const {
  TORCH_CHECK_WITH(OutOfMemoryError,
                   false,
                   "[memory] a tensor of ",
                   bytes,
                   " bytes on ",
                   device,
                   " would bring the step to ",
                   live - floor(),
                   " bytes; its budget is ",
                   limit_.load(std::memory_order_relaxed),
                   ".");
}

WatchedBytes& cpu_watch() {
  static WatchedBytes watch;
  return watch;
}

class AllocationWatch::Reporter final : public torch::profiler::impl::ProfilerStateBase {
 public:
  explicit Reporter(c10::Device device)
      : ProfilerStateBase(
            torch::profiler::impl::ProfilerConfig(torch::profiler::impl::ProfilerState::Disabled)),
        device_(device),
        around_(c10::ThreadLocalDebugInfo::current()),
        outer_(dynamic_cast<c10::MemoryReportingInfoBase*>(
            c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::PROFILER_STATE))) {}

  void reportMemoryUsage(
      void* data, int64_t bytes, size_t live, size_t reserved, c10::Device device) override {
    if (outer_ != nullptr) {
      outer_->reportMemoryUsage(data, bytes, live, reserved, device);
    }
    const bool is_ours = device.type() == device_.type() &&
                         (!device_.has_index() || device.index() == device_.index());
    if (bytes > 0 && is_ours && !counts.admits(static_cast<int64_t>(live))) {
      counts.refuse(bytes, static_cast<int64_t>(live), device);
    }
  }

  torch::profiler::impl::ActiveProfilerType profilerType() override {
    return torch::profiler::impl::ActiveProfilerType::NONE;
  }

  WatchedBytes counts;

 private:
  const c10::Device device_;
  const std::shared_ptr<c10::ThreadLocalDebugInfo> around_;  // owns outer_
  c10::MemoryReportingInfoBase* const outer_;                // who listened before; may be null
};

AllocationWatch::AllocationWatch(c10::Device device, int64_t limit) : device_(device) {
  TORCH_CHECK(limit >= 0, "[memory] expected a limit of 0 bytes or more, got ", limit);
  const int64_t live = live_bytes(device);
  if (device.is_cpu()) {
    TORCH_CHECK(!cpu_watch().is_on(),
                "[memory] there is already a watch on CPU tensors: use one at a time.");
    cpu_watch().begin(live, limit);
    return;
  }
  reporter_ = std::make_shared<Reporter>(device);
  reporter_->counts.begin(live, limit);
  c10::ThreadLocalDebugInfo::_push(c10::DebugInfoKind::PROFILER_STATE, reporter_);
}

AllocationWatch::~AllocationWatch() {
  counts().end();
  if (reporter_ != nullptr) {
    c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
  }
}

WatchedBytes& AllocationWatch::counts() const {
  return reporter_ == nullptr ? cpu_watch() : reporter_->counts;
}

void AllocationWatch::raise_floor(int64_t bytes) {
  counts().raise_floor(bytes);
}

int64_t AllocationWatch::most() const {
  return counts().most();
}

int64_t AllocationWatch::now() const {
  return live_bytes(device_) - counts().floor();
}

}  // namespace reprise::memory
