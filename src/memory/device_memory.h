// How much memory a device has, and how much of it tensors could still take.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>

#include <cstdint>

namespace reprise::detail {

struct DeviceMemory {
  int64_t total = 0;
  /// What tensors could take on top of those alive: free memory, and what the device's allocator
  /// holds without using it.
  int64_t left = 0;
};

/// Of the CPU: main memory, or the share of it that this process's control group may have.
REPRISE_API DeviceMemory device_memory(c10::Device device);

}  // namespace reprise::detail
