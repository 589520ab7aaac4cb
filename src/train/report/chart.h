// A chart as HTML: a figure with a legend, an SVG drawn here, and the points as JSON for the script
// that shows values under the pointer. Without scripts the chart is still whole.
#pragma once

#include "train/report/axis.h"
#include "train/report/series.h"

#include <reprise/export.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::report {

enum class Stroke : uint8_t { Solid, Dashed, Faint };

struct Line {
  std::string name;
  Series series;
  int color = 0;  ///< of the page's palette: 0 to kColors - 1
  Stroke stroke = Stroke::Solid;
  bool has_markers = false;
};

constexpr int kColors = 7;  // the last is grey

enum class ChartWidth : uint8_t { Half, Full };
enum class ChartKind : uint8_t { Lines, StackedAreas };

/// A value that is marked across the chart, or a place along its horizontal axis.
struct Mark {
  std::string name;
  double at = 0;
};

struct Chart {
  std::string title;
  std::string note;  ///< one short sentence, or nothing
  Unit unit = Unit::Number;
  ChartKind kind = ChartKind::Lines;
  ChartWidth width = ChartWidth::Half;
  AxisStart start = AxisStart::AtLowest;
  std::string step_name = "step";   ///< of the horizontal axis; one short word
  Unit step_unit = Unit::Number;    ///< Number: whole steps
  bool has_values = true;           ///< in the legend
  bool is_held = false;             ///< each value lasts until the next point
  double steps_reach = 0;           ///< the horizontal axis goes at least so far
  std::vector<Mark> limits = {};    ///< values, drawn across; the axis reaches them
  std::vector<Mark> sections = {};  ///< steps at which something begins
  std::vector<Mark> stages = {};    ///< the same, too many to draw: the pointer names them
  bool may_be_log = false;          ///< drawn so if the values span more than three powers of ten
  double reaches = 0;               ///< the axis goes at least so far; for charts that are compared
  bool is_share = false;            ///< the axis is 0 to 1 whatever the values
  std::vector<Line> lines;
};

/// "" if no line has a point. A faint line belongs to the line before it in the legend.
REPRISE_API std::string chart_html(const Chart& chart);

}  // namespace reprise::report
