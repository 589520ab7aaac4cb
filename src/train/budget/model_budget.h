// The activation budget of a predicted run.
#pragma once

#include "train/budget/shape_curve.h"

#include <reprise/train/model_plan.h>

#include <cstdint>

namespace reprise {

/// The budget in bytes, from the request's limits and from what `plan` says is left on the device.
/// Throws if no plan of `shape` fits it, or if it does not fit the device.
int64_t activation_budget(const ModelPlanRequest& request,
                          const ModelPlan& plan,
                          const ShapeCurve& shape);

}  // namespace reprise
