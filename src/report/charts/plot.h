// The inside of a chart: positions of values in the SVG, and the shapes drawn there.
#pragma once

#include "report/charts/chart.h"

#include <string>

namespace reprise::report {

/// Sizes are in units of the SVG, which are CSS pixels at full width.
struct Plot {
  double width, height;
  double left, right, top, bottom;  ///< the rectangle of the axes
  Axis steps;
  Axis values;

  double x(double step) const { return left + steps.position(step) * (right - left); }
  double y(double value) const { return bottom - values.position(value) * (bottom - top); }
  std::string point(double step, double value) const;  ///< "x,y", for a path
};

Plot plot_of(const Chart& chart);

std::string axes_svg(const Plot& plot, const std::string& step_name);
/// Limits and sections, drawn on top.
std::string marks_svg(const Plot& plot, const Chart& chart);
std::string line_svg(const Plot& plot, const Line& line);

/// A coordinate as text. Two decimals are enough for any screen.
std::string coordinate(double value);

}  // namespace reprise::report
