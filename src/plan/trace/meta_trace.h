// Traces a step on the meta device, for a device that need not be present: nothing is computed, and
// times are predicted.
#pragma once

#include "plan/trace/step_trace.h"

#include <reprise/device_profile.h>
#include <reprise/export.h>
#include "memory/planned_device.h"

#include <functional>

namespace reprise::planning {

/// While it lives, meta tensors take as many bytes as they would on the planned device. Models and
/// batches to trace are made inside it.
class REPRISE_API MetaScope {
 public:
  explicit MetaScope(const DeviceProfile& device);

 private:
  memory::PlannedDeviceGuard planned_;
};

struct PredictedStep {
  StepTrace trace;
  double plain_ms = 0;  ///< forward and backward without any region
};

/// Traces `step`, a forward and a backward on meta tensors, in a MetaScope of the same device.
/// Bytes are those that the device's allocator would give; times are predicted (roofline.h). An
/// operator without a meta kernel is an error that names it.
REPRISE_API PredictedStep predict_step(const std::function<void()>& step,
                                       const DeviceProfile& device);

}  // namespace reprise::planning
