// Charts by the keys of the step records, for one run or several.
#pragma once

#include "train/report/chart.h"
#include "train/report/sections.h"

#include <string>
#include <vector>

namespace reprise::report {

struct Curve {
  std::string key;
  std::string name;
  Stroke stroke = Stroke::Solid;
  bool has_markers = false;
};

struct ChartPlan {
  std::string title;
  std::string note;
  std::vector<Curve> curves;
  Unit unit = Unit::Number;
  ChartWidth width = ChartWidth::Half;
  AxisStart start = AxisStart::AtLowest;
  bool may_be_log = false;
  bool is_share = false;
  bool is_smoothed = false;  ///< the first curve, where it has points enough
};

/// One colour for each curve of a single run, or for each run of several.
int color_of(size_t run, size_t curve, size_t runs);

/// The charts that have points, one after the other.
std::string planned_html(const std::vector<ChartPlan>& plans, const Runs& runs);

}  // namespace reprise::report
