// The trace of a step that is not run: on tensors without memory, planned for a device that need
// not be here.
#pragma once

#include "plan/step_trace.h"

#include <reprise/detail/planned_device.h>
#include <reprise/device_profile.h>
#include <reprise/export.h>

#include <functional>

namespace reprise::planning {

/// In its scope tensors of the meta device count as they would on the device that is planned for.
/// Models and batches for a trace are made in it.
class REPRISE_API MetaScope {
 public:
  explicit MetaScope(const DeviceProfile& device);

 private:
  detail::PlannedDeviceGuard planned_;
};

struct PredictedStep {
  StepTrace trace;
  double plain_ms = 0;  ///< forward and backward without any region
};

/// `step`: a forward and a backward on tensors of the meta device, in a MetaScope of the same
/// device. Bytes are those that the device's allocator would give, times are predicted
/// (op_cost.h). An operator that has no kernel for tensors without memory is an error that names
/// it.
REPRISE_API PredictedStep predict_step(const std::function<void()>& step,
                                       const DeviceProfile& device);

}  // namespace reprise::planning
