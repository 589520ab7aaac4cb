// A chart as HTML: a figure with a legend, an SVG, and the points as JSON. The chart is complete
// without a script; the page's script draws it again to the width of the screen, shows values under
// the pointer, and zooms.
#pragma once

#include "report/charts/axis.h"
#include "report/charts/series.h"

#include <reprise/export.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::report {

enum class Stroke : uint8_t { Solid, Dashed, Faint };

struct Line {
  std::string name;
  Series series;
  int color = 0;  ///< in the page's palette: 0 to kColors - 1
  Stroke stroke = Stroke::Solid;
  bool has_markers = false;
  /// Seconds since the start of its run, by step, for the time axis; null: unknown.
  std::shared_ptr<const Series> clock = nullptr;
};

constexpr int kColors = 7;  // the last is grey

enum class ChartWidth : uint8_t { Half, Full };
enum class ChartKind : uint8_t { Lines, StackedAreas };

/// A marked value, or a marked position on the horizontal axis.
struct Mark {
  std::string name;
  double at = 0;
};

struct Chart {
  std::string title;
  std::string note;  ///< one short sentence, or empty
  Unit unit = Unit::Number;
  ChartKind kind = ChartKind::Lines;
  ChartWidth width = ChartWidth::Half;
  AxisStart start = AxisStart::AtLowest;
  std::string step_name = "step";   ///< name of the horizontal axis; one short word
  Unit step_unit = Unit::Number;    ///< Number: whole steps
  bool has_values = true;           ///< the legend shows values
  bool is_held = false;             ///< each value lasts until the next point
  double steps_reach = 0;           ///< the horizontal axis extends at least to this
  std::vector<Mark> limits = {};    ///< values drawn as lines; the axis includes them
  std::vector<Mark> sections = {};  ///< steps at which something begins
  std::vector<Mark> stages = {};    ///< the same, but too many to draw: shown at the pointer
  bool may_be_log = false;          ///< logarithmic if values span more than three powers of ten
  double reaches = 0;               ///< the axis extends at least to this, to compare charts
  bool is_share = false;            ///< the axis is always 0 to 1
  std::vector<Line> lines;
};

/// "" if no line has a point. A faint line belongs to the line before it in the legend.
REPRISE_API std::string chart_html(const Chart& chart);

/// Charts side by side, without holes: a half chart that would be alone in its row gets all of it.
/// "" if no chart has a point.
REPRISE_API std::string grid_html(std::vector<Chart> charts);

}  // namespace reprise::report
