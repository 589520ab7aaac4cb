// Charts of the keys in the step records, for one run or several.
#pragma once

#include "report/charts/chart.h"
#include "report/page/sections.h"

#include <memory>
#include <string>
#include <vector>

namespace reprise::report {

struct Curve {
  std::string key;
  std::string name;
  Stroke stroke = Stroke::Solid;
  bool has_markers = false;
};

/// The same metric on evaluation data.
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
  bool is_smoothed = false;  ///< smooth the first curve, if it has enough points
};

/// Parts of a stack, from the bottom up. A part keeps its colour if others are missing.
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

/// Keys with a number in any record of any run, in the order of their first appearance.
std::vector<std::string> keys_of(const Runs& runs);

/// One colour per curve if there is a single run, else one per run.
int color_of(size_t run, size_t curve, size_t runs);

/// Whether no value of any run differs from the others of its run, over several steps; bytes may by
/// half a percent. A chart of such curves says less than the number.
bool is_constant(const ChartPlan& plan, const Runs& runs);

/// All charts that have points and are not constant.
std::vector<Chart> planned(const std::vector<ChartPlan>& plans, const Runs& runs);

/// One chart per run, all on the same scale.
std::vector<Chart> stacked(const StackPlan& plan, const Runs& runs);

/// Seconds since the start of a run, by step.
std::shared_ptr<const Series> clock_of(const ReportRun& run);

}  // namespace reprise::report
