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

/// The same quantity on held-out data, where a run has it.
Curve eval_curve(const std::string& key);

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

/// Parts of a whole, from the bottom up; a part has its colour whether or not all are there.
struct StackPart {
  std::string key;
  std::string name;
  int color;
};

struct StackPlan {
  std::string title;
  std::string note;
  Unit unit;
  std::vector<StackPart> parts;
};

/// The keys under which a record of any run has a number, in the order of their first appearance.
std::vector<std::string> keys_of(const Runs& runs);

/// One colour for each curve of a single run, or for each run of several.
int color_of(size_t run, size_t curve, size_t runs);

/// The charts that have points, one after the other.
std::string planned_html(const std::vector<ChartPlan>& plans, const Runs& runs);

/// A chart for each run, all on one scale.
std::string stacked_html(const StackPlan& plan, const Runs& runs);

}  // namespace reprise::report
