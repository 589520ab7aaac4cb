// Stacked areas: parts of a total over time.
#pragma once

#include "report/charts/plot.h"

#include <string>
#include <vector>

namespace reprise::report {

/// The upper edge of each area at each step; the first area starts at 0. A line without a point at
/// a step counts as 0.
struct Stack {
  std::vector<double> steps;
  std::vector<std::vector<double>> tops;  ///< one list per line
};

Stack stack_of(const std::vector<Line>& lines);

double highest_total(const Stack& stack);

/// Reduces the steps to a number that can be drawn, the same for all lines: the one with the
/// highest total of each interval.
REPRISE_API void thin_together(std::vector<Line>& lines);

/// `is_held`: each value lasts until the next step.
std::string stack_svg(const Plot& plot, const std::vector<Line>& lines, bool is_held);

}  // namespace reprise::report
