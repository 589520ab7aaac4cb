// The device that a step is planned for while it runs on the meta device.
//
// Code that chooses sizes or kernels by a tensor's device must use kernel_type: the device of the
// tensor itself, or for a meta tensor the device that the plan is for.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>

namespace reprise::memory {

struct PlannedDevice {
  c10::DeviceType type = c10::kMeta;  ///< meta: nothing is planned
  int generation = 0;                 ///< for a GPU: the major version of its compute capability
};

/// The planned device of this thread. A backward on meta tensors runs on the thread that calls it.
REPRISE_API const PlannedDevice& planned_device();

class REPRISE_API PlannedDeviceGuard {
 public:
  explicit PlannedDeviceGuard(const PlannedDevice& device);
  ~PlannedDeviceGuard();
  PlannedDeviceGuard(const PlannedDeviceGuard&) = delete;
  PlannedDeviceGuard& operator=(const PlannedDeviceGuard&) = delete;

 private:
  PlannedDevice previous_;
};

/// The type of device that `device` stands for.
inline c10::DeviceType kernel_type(c10::Device device) {
  return device.type() == c10::kMeta ? planned_device().type : device.type();
}

/// Whether work on `device` runs, or is planned to run, on a GPU.
inline bool is_for_cuda(c10::Device device) {
  return kernel_type(device) == c10::kCUDA;
}

}  // namespace reprise::memory
