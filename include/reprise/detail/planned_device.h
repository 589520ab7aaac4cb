// The device that a step is planned for while it runs on tensors without memory (the meta device).
//
// Whoever decides sizes or kernels by a tensor's device asks kernel_type: for a tensor with memory
// that is its own device, and for one without the device that the plan is for.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>

namespace reprise::detail {

struct PlannedDevice {
  c10::DeviceType type = c10::kMeta;  ///< meta: nothing is planned, tensors stand for themselves
  int generation = 0;                 ///< of a GPU: the first number of its compute capability
};

/// Of this thread; a backward on tensors without memory runs on the thread that calls it.
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

/// The kind of device that `device` stands for.
inline c10::DeviceType kernel_type(c10::Device device) {
  return device.type() == c10::kMeta ? planned_device().type : device.type();
}

/// Whether what runs on `device` runs, or shall run, on a GPU.
inline bool is_for_cuda(c10::Device device) {
  return kernel_type(device) == c10::kCUDA;
}

}  // namespace reprise::detail
