// Device functions through c10, so that nothing links CUDA: synchronization and the bytes held by
// the allocator. On a CPU there is nothing to wait for and nothing is cached.
#pragma once

#include <reprise/memory.h>

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>
#include <optional>

namespace gpu {

/// "cuda" means the first GPU.
inline c10::Device with_index(c10::Device device) {
  return device.is_cpu() || device.has_index() ? device : c10::Device(device.type(), 0);
}

inline void synchronize(c10::Device device) {
  if (!device.is_cpu()) {
    c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
  }
}

/// Frees cached memory, so that one mode does not run in the memory that another one reserved.
inline void empty_cache(c10::Device device) {
  if (!device.is_cpu()) {
    c10::getDeviceAllocator(device.type())->emptyCache();
  }
}

/// Peak of the bytes reserved by the allocator since the last reset_peak_bytes, including free
/// blocks.
inline std::optional<int64_t> peak_reserved_bytes(c10::Device device) {
  if (device.is_cpu()) {
    return std::nullopt;
  }
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return stats.reserved_bytes[kAll].peak;
}

}  // namespace gpu
