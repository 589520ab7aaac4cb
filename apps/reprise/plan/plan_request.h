// From the flags of `reprise plan` to what the library plans, and back to a training command.
#pragma once

#include "reprise/plan/plan_flags.h"

#include <reprise/train/model_plan.h>

#include <string>

namespace reprise::app {

/// Reads the config.json files that the flags name.
ModelPlanRequest plan_request(const PlanFlags& flags);

/// Selects the attention kernel to plan with. Throws if --attention names one that does not work
/// with the device and type of the request.
void choose_attention(const std::string& name, const ModelPlanRequest& request);

/// The training command that follows the plan.
std::string training_command(const PlanFlags& flags, const ModelPlan& plan);

}  // namespace reprise::app
