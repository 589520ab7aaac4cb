// Charts of the metrics that train_online() writes.
#pragma once

#include "report/charts/chart_plan.h"

#include <string>
#include <vector>

namespace reprise::report {

/// Whether any run is an online one, with rewards.
bool has_rewards(const Runs& runs);

/// Rewards, in total and by source, and statistics of completions.
std::vector<ChartPlan> reward_charts(const Runs& runs);

/// One chart per critic/ key.
std::vector<ChartPlan> critic_charts(const Runs& runs);

/// Time and memory of rollout, scoring and update.
StackPlan phase_times();
ChartPlan phase_peaks();
ChartPlan rollout_speed();

}  // namespace reprise::report
