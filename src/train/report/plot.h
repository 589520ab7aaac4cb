// The inside of a chart: where values lie in the SVG, and the shapes drawn there.
#pragma once

#include "train/report/chart.h"

#include <string>

namespace reprise::report {

/// Sizes in the SVG's own units, which are CSS pixels at full width.
struct Plot {
  double width, height;
  double left, right, top, bottom;  ///< the rectangle of the axes
  Axis steps;
  Axis values;

  double x(double step) const { return left + steps.place(step) * (right - left); }
  double y(double value) const { return bottom - values.place(value) * (bottom - top); }
  std::string point(double step, double value) const;  ///< "x,y", for a path
};

Plot plot_of(const Chart& chart);

std::string axes_svg(const Plot& plot, const std::string& step_name);
/// Limits and sections, above what is drawn.
std::string marks_svg(const Plot& plot, const Chart& chart);
std::string line_svg(const Plot& plot, const Line& line);

/// A coordinate: two decimals are enough for any screen.
std::string coordinate(double value);

}  // namespace reprise::report
