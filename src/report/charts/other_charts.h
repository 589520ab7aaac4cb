// Charts of metrics that the page does not know by name.
#pragma once

#include "report/charts/chart_plan.h"

#include <set>
#include <string>
#include <vector>

namespace reprise::report {

/// The unit that the end of a key tells: _bytes, _ms, ratio, fraction, accuracy.
Unit unit_of(const std::string& key);

/// Keys that differ only after the last slash are in one chart (logits/chosen, logits/rejected),
/// and so is a metric with the same on evaluation data. `charted` are left out.
std::vector<ChartPlan> other_charts(const std::vector<std::string>& keys,
                                    const std::set<std::string>& charted);

}  // namespace reprise::report
