// The output of `reprise plan` as tables and as JSON.
#pragma once

#include <reprise/io/json.h>
#include <reprise/train/model_plan.h>

#include <iosfwd>
#include <string>

namespace reprise::app {

/// Prints memory by class, the curve of memory against time, and the batches that fit.
void print_plan(const ModelPlanRequest& request, const ModelPlan& plan, std::ostream& out);

/// The same as JSON. `command` is the training command that follows the plan.
Json plan_json(const ModelPlanRequest& request, const ModelPlan& plan, const std::string& command);

}  // namespace reprise::app
