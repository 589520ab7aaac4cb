// Charts of memory and speed.
#pragma once

#include "report/charts/chart_plan.h"

#include <string>
#include <vector>

namespace reprise::report {

/// The peak by class. `role`: the beginning of its keys, such as "critic/".
StackPlan memory_by_class(const std::string& role, const std::string& title);

std::vector<ChartPlan> memory_plans(const Runs& runs);
std::vector<ChartPlan> speed_plans();

/// Tokens per second, from the tokens and the time of each step.
Chart throughput_chart(const Runs& runs);

}  // namespace reprise::report
