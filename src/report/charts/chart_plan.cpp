// Curves of a single run differ by colour. With several runs, each run has a colour and its curves
// differ by dashes.
#include "report/charts/chart_plan.h"

#include "report/charts/stack.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace reprise::report {
namespace {

constexpr size_t kSmoothFrom = 60;

/// A curve of each run; some may be empty.
struct RunCurves {
  Curve curve;
  std::vector<Series> of_run;
};

std::vector<RunCurves> curves_of(const ChartPlan& plan, const Runs& runs) {
  std::vector<RunCurves> all;
  for (const Curve& curve : plan.curves) {
    RunCurves curves{curve, {}};
    for (const ReportRun& run : runs) {
      curves.of_run.push_back(series_of(run.steps, curve.key));
    }
    const bool has_points = std::any_of(curves.of_run.begin(),
                                        curves.of_run.end(),
                                        [](const Series& one) { return !one.points.empty(); });
    if (has_points) {
      all.push_back(std::move(curves));
    }
  }
  return all;
}

std::string name_of(const Curve& curve, const std::string& run, bool has_runs, bool has_curves) {
  return !has_runs ? curve.name : !has_curves ? run : run + ", " + curve.name;
}

void add_line(Chart& chart, Line line, bool is_smoothed) {
  if (!is_smoothed || line.series.points.size() <= kSmoothFrom) {
    chart.lines.push_back(std::move(line));
    return;
  }
  Line raw = line;
  raw.stroke = Stroke::Faint;
  line.series = smoothed(line.series);
  line.name += " (smoothed)";
  chart.lines.push_back(std::move(line));
  chart.lines.push_back(std::move(raw));
}

/// Runs that differ only in what they recompute have equal losses. A note tells the reader that
/// lines are not missing but identical.
bool do_runs_coincide(const std::vector<RunCurves>& curves) {
  return std::all_of(curves.begin(), curves.end(), [](const RunCurves& one) {
    return std::all_of(one.of_run.begin(), one.of_run.end(), [&](const Series& series) {
      return series == one.of_run.front();
    });
  });
}

Chart chart_of(const ChartPlan& plan, const Runs& runs) {
  Chart chart{.title = plan.title,
              .note = plan.note,
              .unit = plan.unit,
              .width = plan.width,
              .start = plan.start,
              .may_be_log = plan.may_be_log,
              .is_share = plan.is_share,
              .lines = {}};
  const std::vector<RunCurves> curves = curves_of(plan, runs);
  std::vector<std::shared_ptr<const Series>> clocks;
  for (const ReportRun& run : runs) {
    clocks.push_back(clock_of(run));
  }
  for (size_t i = 0; i < curves.size(); ++i) {
    const Curve& curve = curves[i].curve;
    for (size_t run = 0; run < runs.size(); ++run) {
      const Series& series = curves[i].of_run[run];
      add_line(chart,
               {.name = name_of(curve, runs[run].name, runs.size() > 1, curves.size() > 1),
                .series = series,
                .color = color_of(run, i, runs.size()),
                .stroke = curve.stroke,
                .has_markers = curve.has_markers && series.points.size() <= kSmoothFrom,
                .clock = clocks[run]},
               plan.is_smoothed && i == 0);
    }
  }
  if (runs.size() > 1 && do_runs_coincide(curves)) {
    chart.note += (chart.note.empty() ? "" : ". ") + std::string("All runs coincide");
  }
  return chart;
}

Chart stack_chart(const StackPlan& plan, const ReportRun& run, bool is_one_of_several) {
  Chart chart{.title = is_one_of_several ? plan.title + ", " + run.name : plan.title,
              .note = plan.note,
              .unit = plan.unit,
              .kind = ChartKind::StackedAreas,
              .width = is_one_of_several ? ChartWidth::Half : ChartWidth::Full,
              .lines = {}};
  const auto clock = clock_of(run);
  for (const StackPart& part : plan.parts) {
    Series series = series_of(run.steps, part.key);
    if (highest_of(series).value_or(0) > 0) {
      chart.lines.push_back(
          {.name = part.name, .series = std::move(series), .color = part.color, .clock = clock});
    }
  }
  return chart;
}

}  // namespace

Curve eval_curve(const std::string& key) {
  return {"eval_" + key, "eval", Stroke::Dashed, true};
}

std::vector<std::string> keys_of(const Runs& runs) {
  std::set<std::string> seen;
  std::vector<std::string> keys;
  for (const ReportRun& run : runs) {
    for (const std::string& key : numeric_keys(run.steps)) {
      if (seen.insert(key).second) {
        keys.push_back(key);
      }
    }
  }
  return keys;
}

int color_of(size_t run, size_t curve, size_t runs) {
  return static_cast<int>((runs == 1 ? curve : run) % (kColors - 1));
}

bool is_constant(const ChartPlan& plan, const Runs& runs) {
  // Allocators round, so bytes differ a little from step to step.
  const double tolerance = plan.unit == Unit::Bytes ? 0.005 : 0;
  bool has_several = false;
  for (const RunCurves& curves : curves_of(plan, runs)) {
    for (const Series& series : curves.of_run) {
      const auto is_other = [&](const Point& point) {
        const double first = series.points.front().value;
        return std::abs(point.value - first) > tolerance * std::abs(first);
      };
      if (!series.broken_steps.empty() ||
          std::any_of(series.points.begin(), series.points.end(), is_other)) {
        return false;
      }
      has_several = has_several || series.points.size() > 1;
    }
  }
  return has_several;
}

std::vector<Chart> planned(const std::vector<ChartPlan>& plans, const Runs& runs) {
  std::vector<Chart> charts;
  for (const ChartPlan& plan : plans) {
    if (!is_constant(plan, runs)) {
      charts.push_back(chart_of(plan, runs));
    }
  }
  return charts;
}

std::vector<Chart> stacked(const StackPlan& plan, const Runs& runs) {
  std::vector<Chart> of_run;
  double highest = 0;
  for (const ReportRun& run : runs) {
    of_run.push_back(stack_chart(plan, run, runs.size() > 1));
    if (!of_run.back().lines.empty()) {
      highest = std::max(highest, highest_total(stack_of(of_run.back().lines)));
    }
  }
  for (Chart& chart : of_run) {
    chart.reaches = highest;
  }
  return of_run;
}

std::shared_ptr<const Series> clock_of(const ReportRun& run) {
  auto clock = std::make_shared<Series>();
  double seconds = 0;
  for (const Json& record : run.steps) {
    for (const char* const key : {"step_ms", "eval_ms", "budget/planning_ms"}) {
      seconds += std::max(0.0, number_at(record, key).value_or(0)) / 1000;
    }
    const auto step = step_of(record);
    if (step && seconds > 0 && (clock->points.empty() || *step >= clock->points.back().step)) {
      clock->points.push_back({*step, seconds});
    }
  }
  return clock;
}

}  // namespace reprise::report
