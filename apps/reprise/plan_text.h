// A plan of `reprise plan` as tables and as JSON.
#pragma once

#include <reprise/io/json.h>
#include <reprise/train/model_plan.h>

#include <iosfwd>
#include <string>

namespace reprise::app {

/// Memory by class, the curve with the chosen point marked, and the batches that fit.
void print_plan(const ModelPlanRequest& request, const ModelPlan& plan, std::ostream& out);

/// The same; `command` is the command line that uses the plan.
Json plan_json(const ModelPlanRequest& request, const ModelPlan& plan, const std::string& command);

}  // namespace reprise::app
