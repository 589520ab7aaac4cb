#include <reprise/memory.h>

#include "memory/cpu_counter.h"
#include "memory/meta_counter.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace reprise {
namespace {

using memory::CpuCounter;
using memory::MetaCounter;

void require_meta_counter() {
  TORCH_CHECK(MetaCounter::is_installed(),
              "[reprise] no byte counts for meta: its tensors are counted only for plans, see "
              "reprise/train/model_plan.h.");
}

void require_cpu_counter() {
  TORCH_CHECK(CpuCounter::is_installed(),
              "[reprise] CPU bytes are not counted: call reprise::track_cpu_memory() at the start "
              "of main().");
}

/// The caching allocator of a device, through c10's interface, so that nothing links CUDA.
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

/// The device with its index, so that devices can be compared.
c10::Device with_index(c10::Device device) {
  const bool is_one = device.is_cpu() || device.is_meta();
  return is_one ? c10::Device(device.type()) : c10::Device(device.type(), index_of(device));
}

/// All live trackers. They are told the peak of a device before it is reset.
struct Trackers {
  std::mutex mutex;
  std::vector<PeakTracker*> list;
};

Trackers& trackers() {
  static Trackers instance;
  return instance;
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
  if (device.is_meta()) {
    require_meta_counter();
    return MetaCounter::live();
  }
  return allocated(device).current;
}

int64_t peak_bytes(c10::Device device) {
  if (device.is_cpu()) {
    require_cpu_counter();
    return CpuCounter::peak();
  }
  if (device.is_meta()) {
    require_meta_counter();
    return MetaCounter::peak();
  }
  return allocated(device).peak;
}

void reset_peak_bytes(c10::Device device) {
  const std::scoped_lock lock(trackers().mutex);
  const auto peak = peak_bytes(device);
  for (auto* tracker : trackers().list) {
    if (tracker->device_ == with_index(device)) {
      tracker->seen_ = std::max(tracker->seen_, peak);
    }
  }
  if (device.is_cpu()) {
    CpuCounter::set_peak(0);
  } else if (device.is_meta()) {
    MetaCounter::set_peak(0);
  } else {
    counting_allocator(device).resetPeakStats(index_of(device));
  }
}

PeakTracker::PeakTracker(c10::Device device)
    : device_(device),
      start_(live_bytes(device)),
      process_peak_(peak_bytes(device)),
      seen_(start_) {
  device_ = with_index(device);
  reset_peak_bytes(device_);
  const std::scoped_lock lock(trackers().mutex);
  trackers().list.push_back(this);
}

PeakTracker::~PeakTracker() {
  const std::scoped_lock lock(trackers().mutex);
  std::erase(trackers().list, this);
  if (device_.is_cpu()) {
    CpuCounter::set_peak(std::max({process_peak_, seen_, CpuCounter::peak()}));
  } else if (device_.is_meta()) {
    MetaCounter::set_peak(std::max({process_peak_, seen_, MetaCounter::peak()}));
  }
}

int64_t PeakTracker::peak() const {
  const std::scoped_lock lock(trackers().mutex);
  return std::max(seen_, peak_bytes(device_));
}

}  // namespace reprise
