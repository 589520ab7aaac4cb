// Areas that lie on each other: parts of a whole over time.
#pragma once

#include "train/report/plot.h"

#include <string>
#include <vector>

namespace reprise::report {

/// At each step, where each area ends; the first begins at 0. A line without a point there counts
/// 0.
struct Stack {
  std::vector<double> steps;
  std::vector<std::vector<double>> tops;  ///< a list for each line
};

Stack stack_of(const std::vector<Line>& lines);

double highest_total(const Stack& stack);

/// Few enough steps to draw, the same ones for all lines: of each stretch, that of the highest
/// total.
REPRISE_API void thin_together(std::vector<Line>& lines);

/// `is_held`: each value lasts until the next step.
std::string stack_svg(const Plot& plot, const std::vector<Line>& lines, bool is_held);

}  // namespace reprise::report
