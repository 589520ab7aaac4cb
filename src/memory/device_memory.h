// The memory of a device, and how much of it tensors could still use.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>

#include <cstdint>

namespace reprise::memory {

struct DeviceMemory {
  int64_t total = 0;
  /// What tensors could use in addition to the live ones: free memory, and what the device's
  /// allocator has reserved but does not use.
  int64_t left = 0;
};

/// For the CPU: main memory, or the limit of this process's control group.
REPRISE_API DeviceMemory device_memory(c10::Device device);

}  // namespace reprise::memory
