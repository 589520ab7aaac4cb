#include <reprise/memory.h>

#include "memory/cpu_counter.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace reprise {
namespace {

using detail::CpuCounter;

void require_cpu_counter() {
  TORCH_CHECK(CpuCounter::is_installed(),
              "[reprise] CPU bytes are not counted: call reprise::track_cpu_memory() first thing in main().");
}

/// The caching allocator of a device, reached through c10, so that nothing needs to link CUDA.
c10::DeviceAllocator& counting_allocator(c10::Device device) {
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  TORCH_CHECK(allocator != nullptr && allocator->initialized(),
              "[reprise] no byte counts for ",
              device,
              ": its allocator does not count, or nothing was allocated there yet.");
  return *allocator;
}

c10::DeviceIndex index_of(c10::Device device) {
  return device.has_index() ? device.index()
                            : c10::impl::getDeviceGuardImpl(device.type())->getDevice().index();
}

c10::CachingAllocator::Stat allocated(c10::Device device) {
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return counting_allocator(device).getDeviceStats(index_of(device)).allocated_bytes[kAll];
}

}  // namespace

void track_cpu_memory() {
  CpuCounter::install();
}

int64_t live_bytes(c10::Device device) {
  if (device.is_cpu()) {
    require_cpu_counter();
    return CpuCounter::live();
  }
  return allocated(device).current;
}

int64_t peak_bytes(c10::Device device) {
  if (device.is_cpu()) {
    require_cpu_counter();
    return CpuCounter::peak();
  }
  return allocated(device).peak;
}

void reset_peak_bytes(c10::Device device) {
  if (device.is_cpu()) {
    require_cpu_counter();
    CpuCounter::set_peak(0);
  } else {
    counting_allocator(device).resetPeakStats(index_of(device));
  }
}

PeakTracker::PeakTracker(c10::Device device)
    : device_(device), start_(live_bytes(device)), outer_peak_(peak_bytes(device)) {
  reset_peak_bytes(device_);
}

PeakTracker::~PeakTracker() {
  // CUDA's allocator has no way to set a peak back, so there an enclosing tracker sees the inner scope's own.
  if (device_.is_cpu()) {
    CpuCounter::set_peak(std::max(outer_peak_, CpuCounter::peak()));
  }
}

int64_t PeakTracker::peak() const {
  return peak_bytes(device_);
}

}  // namespace reprise
