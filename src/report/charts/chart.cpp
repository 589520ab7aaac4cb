// The figure around a plot: caption, legend with the last values, and data for the script.
#include "report/charts/chart.h"

#include "report/charts/plot.h"
#include "report/charts/stack.h"
#include "report/page/html.h"

#include <reprise/report/units.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <utility>

namespace reprise::report {
namespace {

std::string color_class(const Line& line) {
  return "s" + std::to_string(line.color % kColors);
}

/// The legend item that a line belongs to.
std::vector<int> groups_of(const std::vector<Line>& lines) {
  std::vector<int> groups;
  int group = -1;
  for (const Line& line : lines) {
    group += line.stroke == Stroke::Faint && group >= 0 ? 0 : 1;
    groups.push_back(group);
  }
  return groups;
}

/// The value in the legend: the last one, or the largest one of parts that come and go.
double legend_value(const Chart& chart, const Line& line) {
  const std::vector<Point>& points = line.series.points;
  if (chart.kind != ChartKind::StackedAreas || !chart.is_held) {
    return points.back().value;
  }
  const Stack stack = stack_of(chart.lines);
  const std::vector<double>& totals = stack.tops.back();
  const auto fullest = std::max_element(totals.begin(), totals.end()) - totals.begin();
  const double step = stack.steps[static_cast<size_t>(fullest)];
  const auto found = std::find_if(
      points.begin(), points.end(), [&](const Point& point) { return point.step == step; });
  return found == points.end() ? 0 : found->value;
}

/// Lines have buttons that hide them; parts of a stack cannot be hidden.
std::string legend_html(const Chart& chart) {
  const std::vector<int> groups = groups_of(chart.lines);
  std::string items;
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    const Line& line = chart.lines[i];
    if (i > 0 && groups[i] == groups[i - 1]) {
      continue;
    }
    const bool is_dashed = line.stroke == Stroke::Dashed;
    const std::string swatch =
        element("i", "class=\"" + color_class(line) + (is_dashed ? " dashed" : "") + "\"", "");
    std::string content = swatch + text_element("span", "", line.name);
    if (chart.has_values) {
      content += text_element("b", "", with_unit(legend_value(chart, line), chart.unit));
    }
    const bool is_stacked = chart.kind == ChartKind::StackedAreas;
    items +=
        element(is_stacked ? "div" : "button",
                is_stacked ? std::string("class=\"key\"")
                           : "class=\"key\" type=\"button\" aria-pressed=\"true\" data-group=\"" +
                                 std::to_string(groups[i]) + "\"",
                content);
  }
  return element("div", "class=\"legend\"", items);
}

/// Six digits are enough for a tooltip, and make the page a third smaller.
double rounded(double value) {
  constexpr int kDigits = 6;
  return std::strtod(human_number(value, kDigits).c_str(), nullptr);
}

struct PointLists {
  Json steps = Json::array();
  Json values = Json::array();
};

PointLists lists_of(const std::vector<Point>& points, bool is_counted) {
  PointLists lists;
  for (const Point& point : points) {
    lists.steps.push_back(is_counted ? Json(static_cast<int64_t>(point.step))
                                     : Json(rounded(point.step)));
    lists.values.push_back(rounded(point.value));
  }
  return lists;
}

/// The seconds at which the steps ended.
Json seconds_of(const std::vector<Point>& points, const Series& clock) {
  Json seconds = Json::array();
  auto at = clock.points.begin();
  double latest = 0;
  for (const Point& point : points) {
    for (; at != clock.points.end() && at->step <= point.step; ++at) {
      latest = at->value;
    }
    seconds.push_back(rounded(latest));
  }
  return seconds;
}

const char* stroke_name(Stroke stroke) {
  constexpr std::array<const char*, 3> kNames = {"line", "line dashed", "line faint"};
  return kNames.at(static_cast<size_t>(stroke));
}

Json series_data(const Chart& chart) {
  const std::vector<int> groups = groups_of(chart.lines);
  Json all = Json::array();
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    const Line& line = chart.lines[i];
    PointLists lists = lists_of(line.series.points, chart.step_unit == Unit::Number);
    all.push_back({{"name", line.name},
                   {"group", groups[i]},
                   {"color", color_class(line)},
                   {"stroke", stroke_name(line.stroke)},
                   {"dots", line.has_markers},
                   {"broken", line.series.broken_steps},
                   {"x", std::move(lists.steps)},
                   {"y", std::move(lists.values)}});
    if (line.clock != nullptr && !line.clock->points.empty()) {
      all.back()["t"] = seconds_of(line.series.points, *line.clock);
    }
  }
  return all;
}

Json axis_data(const Axis& axis) {
  return {{"low", axis.low}, {"high", axis.high}, {"log", axis.is_log}};
}

const char* unit_name(Unit unit) {
  constexpr std::array<const char*, 5> kUnits = {"number", "bytes", "ms", "rate", "share"};
  return kUnits.at(static_cast<size_t>(unit));
}

Json marks_data(const std::vector<Mark>& marks) {
  Json all = Json::array();
  for (const Mark& mark : marks) {
    all.push_back({rounded(mark.at), mark.name});
  }
  return all;
}

Json chart_data(const Chart& chart, const Plot& plot) {
  return {{"unit", unit_name(chart.unit)},
          {"stacked", chart.kind == ChartKind::StackedAreas},
          {"held", chart.is_held},
          {"step", {{"name", chart.step_name}, {"unit", unit_name(chart.step_unit)}}},
          {"stages", marks_data(chart.stages)},
          {"sections", marks_data(chart.sections)},
          {"limits", marks_data(chart.limits)},
          {"full", chart.width == ChartWidth::Full},
          {"zero", chart.start == AxisStart::AtZero},
          {"share", chart.is_share},
          {"reaches", chart.reaches},
          {"steps", axis_data(plot.steps)},
          {"values", axis_data(plot.values)},
          {"series", series_data(chart)}};
}

std::string svg_html(const Chart& chart, const Plot& plot) {
  std::string shapes = axes_svg(plot, chart.step_name);
  if (chart.kind == ChartKind::StackedAreas) {
    shapes += stack_svg(plot, chart.lines, chart.is_held);
  } else {
    const std::vector<int> groups = groups_of(chart.lines);
    // In reverse order, so that the first line of the legend is on top.
    for (size_t i = chart.lines.size(); i-- > 0;) {
      shapes += element("g",
                        "class=\"" + color_class(chart.lines[i]) + "\" data-group=\"" +
                            std::to_string(groups[i]) + "\"",
                        line_svg(plot, chart.lines[i]));
    }
  }
  shapes += marks_svg(plot, chart) + element("g", "class=\"pointer\"", "");
  return element("svg",
                 "viewBox=\"0 0 " + coordinate(plot.width) + " " + coordinate(plot.height) +
                     "\" role=\"img\" aria-label=\"" +
                     escaped(chart.title + " by " + chart.step_name) + "\"",
                 shapes);
}

/// Leaves out stages at steps that are not drawn.
void name_drawn_stages(Chart& chart) {
  std::set<double> drawn;
  for (const Point& point : chart.lines.front().series.points) {
    drawn.insert(point.step);
  }
  std::erase_if(chart.stages, [&](const Mark& stage) { return !drawn.contains(stage.at); });
}

}  // namespace

std::string grid_html(std::vector<Chart> charts) {
  std::erase_if(charts, [](const Chart& chart) {
    return std::all_of(chart.lines.begin(), chart.lines.end(), [](const Line& line) {
      return line.series.points.empty();
    });
  });
  std::string figures;
  bool is_second = false;
  for (size_t i = 0; i < charts.size(); ++i) {
    const bool is_last = i + 1 == charts.size() || charts[i + 1].width == ChartWidth::Full;
    if (charts[i].width == ChartWidth::Half && is_last && !is_second) {
      charts[i].width = ChartWidth::Full;
    }
    is_second = charts[i].width == ChartWidth::Half && !is_second;
    figures += chart_html(charts[i]);
  }
  return figures.empty() ? figures : element("div", "class=\"charts\"", figures);
}

std::string chart_html(const Chart& original) {
  Chart chart = original;
  std::erase_if(chart.lines, [](const Line& line) { return line.series.points.empty(); });
  if (chart.lines.empty()) {
    return {};
  }
  if (chart.kind == ChartKind::StackedAreas) {
    thin_together(chart.lines);
    name_drawn_stages(chart);
  } else {
    for (Line& line : chart.lines) {
      line.series = thinned(line.series);
    }
  }
  const Plot plot = plot_of(chart);
  const std::string note =
      chart.note.empty() ? std::string() : text_element("p", "note", chart.note);
  const std::string caption =
      element("figcaption", "", text_element("h3", "", chart.title) + note + legend_html(chart));
  const std::string data =
      element("script", "type=\"application/json\"", script_json(chart_data(chart, plot)));
  const bool is_full = chart.width == ChartWidth::Full;
  return element("figure",
                 is_full ? "class=\"chart full\"" : "class=\"chart\"",
                 caption + element("div", "class=\"plot\"", svg_html(chart, plot)) + data) +
         "\n";
}

}  // namespace reprise::report
