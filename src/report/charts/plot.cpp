// Shapes have only classes; the page's style has the colours, so one drawing suits light and dark.
#include "report/charts/plot.h"

#include "report/charts/stack.h"
#include "report/page/html.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace reprise::report {
namespace {

struct Range {
  double low, high;
};

void extend(Range& range, double value) {
  range.low = std::min(range.low, value);
  range.high = std::max(range.high, value);
}

/// The ranges of steps and values over all lines. There is at least one point.
std::pair<Range, Range> ranges_of(const Chart& chart) {
  constexpr Range kNone{1e300, -1e300};
  Range steps = kNone, values = kNone;
  for (const Line& line : chart.lines) {
    for (const Point& point : line.series.points) {
      extend(steps, point.step);
      extend(values, point.value);
    }
    for (const double step : line.series.broken_steps) {
      extend(steps, step);
    }
  }
  for (const Mark& limit : chart.limits) {
    extend(values, limit.at);
  }
  return {steps, values};
}

Axis values_axis_of(const Chart& chart, Range range) {
  constexpr double kLogFrom = 1000;
  if (chart.is_share && range.low >= 0 && range.high <= 1) {
    return value_axis(0, 1, chart.unit, AxisStart::AtZero);
  }
  if (chart.may_be_log && range.low > 0 && range.high / range.low > kLogFrom) {
    return log_axis(range.low, range.high);
  }
  if (chart.kind == ChartKind::StackedAreas) {
    const double highest =
        std::max({chart.reaches, highest_total(stack_of(chart.lines)), range.high});
    return value_axis(0, highest, chart.unit, AxisStart::AtZero);
  }
  return value_axis(range.low, range.high, chart.unit, chart.start);
}

std::string attribute(const char* name, double value) {
  return std::string(name) + "=\"" + coordinate(value) + "\" ";
}

std::string line_between(const char* css_class, double x1, double y1, double x2, double y2) {
  return element("line",
                 attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) +
                     attribute("y2", y2) + "class=\"" + css_class + "\"",
                 "");
}

std::string label_at(const char* anchor, double x, double y, const std::string& text) {
  return element("text",
                 attribute("x", x) + attribute("y", y) + "text-anchor=\"" + anchor + "\"",
                 escaped(text));
}

/// The path is interrupted at steps without a finite value, since a line across would be made up.
std::string path_of(const Plot& plot, const Series& series) {
  std::string path;
  auto broken = series.broken_steps.begin();
  bool is_joined = false;
  for (const Point& point : series.points) {
    for (; broken != series.broken_steps.end() && *broken <= point.step; ++broken) {
      is_joined = false;
    }
    path += (is_joined ? "L" : "M") + plot.point(point.step, point.value);
    is_joined = true;
  }
  return path;
}

std::string markers_of(const Plot& plot, const Line& line) {
  std::string markers;
  for (const Point& point : line.series.points) {
    markers += element("circle",
                       attribute("cx", plot.x(point.step)) + attribute("cy", plot.y(point.value)) +
                           "r=\"3\" class=\"dot\"",
                       "");
  }
  return markers;
}

/// Small triangles on the axis at steps without a finite value.
std::string broken_marks(const Plot& plot, const Series& series) {
  std::string marks;
  for (const double step : series.broken_steps) {
    const double x = plot.x(step), y = plot.bottom;
    const std::string path = "M" + coordinate(x) + "," + coordinate(y - 9) + "l5,9h-10z";
    marks += element("path", "class=\"broken\" d=\"" + path + "\"", "");
  }
  return marks;
}

}  // namespace

std::string coordinate(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  std::string number = text.data();
  number.erase(number.find_last_not_of('0') + 1);
  if (number.back() == '.') {
    number.pop_back();
  }
  return number;
}

std::string Plot::point(double step, double value) const {
  return coordinate(x(step)) + "," + coordinate(y(value));
}

Plot plot_of(const Chart& chart) {
  constexpr double kCharacter = 6.6;  // approximate width in the label's font
  const bool is_full = chart.width == ChartWidth::Full;
  const auto [steps, values] = ranges_of(chart);
  Plot plot{};
  plot.width = is_full ? 1104 : 536;
  plot.height = is_full ? 300 : 220;
  plot.steps = step_axis(steps.low, std::max(steps.high, chart.steps_reach), chart.step_unit);
  plot.values = values_axis_of(chart, values);
  size_t longest = 0;
  for (const std::string& label : plot.values.labels) {
    longest = std::max(longest, label.size());
  }
  plot.left = std::max(34.0, 14 + kCharacter * static_cast<double>(longest));
  plot.right = plot.width - 16;
  plot.top = chart.sections.empty() ? 10 : 26;  // room for their names above
  plot.bottom = plot.height - 26;
  return plot;
}

std::string axes_svg(const Plot& plot, const std::string& step_name) {
  constexpr double kHalfText = 4;
  std::string grid, labels;
  for (size_t i = 0; i < plot.values.ticks.size(); ++i) {
    const double y = plot.y(plot.values.ticks[i]);
    grid += line_between(i == 0 ? "base" : "grid", plot.left, y, plot.right, y);
    labels += label_at("end", plot.left - 8, y + kHalfText, plot.values.labels[i]);
  }
  for (size_t i = 0; i < plot.steps.ticks.size(); ++i) {
    const double x = plot.x(plot.steps.ticks[i]);
    grid += line_between("tick", x, plot.bottom, x, plot.bottom + 4);
    labels += label_at("middle", x, plot.bottom + 18, plot.steps.labels[i]);
  }
  labels += label_at("end", plot.left - 8, plot.bottom + 18, step_name);
  return element("g", "class=\"axes\"", grid + labels);
}

std::string marks_svg(const Plot& plot, const Chart& chart) {
  std::string marks;
  for (const Mark& section : chart.sections) {
    const double x = plot.x(section.at);
    marks += line_between("section", x, plot.top - 16, x, plot.bottom);
    marks += label_at("start", x + 5, plot.top - 7, section.name);
  }
  for (const Mark& limit : chart.limits) {
    const double y = plot.y(limit.at);
    marks += line_between("limit", plot.left, y, plot.right, y);
    marks += label_at("end", plot.right - 4, y - 5, limit.name);
  }
  return marks.empty() ? marks : element("g", "class=\"marks\"", marks);
}

std::string line_svg(const Plot& plot, const Line& line) {
  constexpr std::array<const char*, 3> kClasses = {"line", "line dashed", "line faint"};
  std::string shapes =
      element("path",
              "class=\"" + std::string(kClasses.at(static_cast<size_t>(line.stroke))) + "\" d=\"" +
                  path_of(plot, line.series) + "\"",
              "");
  if (line.has_markers || line.series.points.size() == 1) {
    shapes += markers_of(plot, line);
  }
  return shapes + broken_marks(plot, line.series);
}

}  // namespace reprise::report
