// Charts of online training, by the keys that train_online writes.
#pragma once

#include "train/report/chart_plan.h"

#include <string>
#include <vector>

namespace reprise::report {

/// Whether a run learns from rewards of what its policy answers.
bool has_rewards(const Runs& runs);

/// What the policy earns, as a whole and by source, and how it answers.
std::vector<ChartPlan> reward_charts(const Runs& runs);

/// A chart for each key of critic/.
std::vector<ChartPlan> critic_charts(const Runs& runs);

/// Rollout, scoring and update: the time and the memory that each takes.
StackPlan phase_times();
ChartPlan phase_peaks();
ChartPlan rollout_speed();

}  // namespace reprise::report
