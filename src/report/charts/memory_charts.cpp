// Charts of the memory plan page.
#include "report/charts/chart.h"
#include "report/page/html.h"
#include "report/page/memory_sections.h"
#include "report/page/parts.h"

#include <reprise/report/units.h>

#include <algorithm>
#include <array>
#include <utility>

namespace reprise::report {
namespace {

constexpr size_t kMostMarkers = 60;

struct Part {
  const char* name;
  int64_t TimelinePoint::*bytes;
  int color;
};

/// From the bottom up: what is kept for backward is below what is short-lived.
constexpr std::array<Part, 5> kParts = {
    {{"gradients", &TimelinePoint::gradient_bytes, 5},
     {"inputs of blocks", &TimelinePoint::input_bytes, 0},
     {"results kept for backward", &TimelinePoint::kept_bytes, 2},
     {"working memory of a block", &TimelinePoint::working_bytes, 4},
     {"head and loss", &TimelinePoint::head_bytes, 3}}};

/// The start of each stage, and the end of the last. A stage without a time, or with an unknown
/// one, still has a width, since the peak may be in it.
std::vector<double> places_of(const StepTimeline& timeline) {
  const double least = std::max(timeline.duration_ms() / 1000, 1e-6);
  std::vector<double> places = {0};
  for (const TimelinePoint& point : timeline.points) {
    places.push_back(places.back() + std::max(point.duration_ms, least));
  }
  return places;
}

Series area_of(const StepTimeline& timeline, int64_t TimelinePoint::*bytes) {
  const std::vector<double> places = places_of(timeline);
  Series series;
  for (size_t i = 0; i < places.size(); ++i) {
    const TimelinePoint& point = timeline.points[std::min(i, timeline.points.size() - 1)];
    series.points.push_back({places[i], static_cast<double>(point.*bytes)});
  }
  return series;
}

std::string stage_name(const TimelinePoint& point) {
  constexpr std::array<const char*, 5> kNames = {
      "before the blocks", "forward", "head and loss", "recompute", "backward"};
  const bool is_of_block = point.stage != StepStage::Before && point.stage != StepStage::Head;
  return kNames.at(static_cast<size_t>(point.stage)) +
         (is_of_block ? " of block " + std::to_string(point.region) : std::string());
}

std::vector<Mark> stages_of(const StepTimeline& timeline) {
  const std::vector<double> places = places_of(timeline);
  std::vector<Mark> stages;
  for (size_t i = 0; i < timeline.points.size(); ++i) {
    stages.push_back({stage_name(timeline.points[i]), places[i]});
  }
  return stages;
}

/// The starts of forward and backward.
std::vector<Mark> sections_of(const StepTimeline& timeline) {
  const std::vector<double> places = places_of(timeline);
  std::vector<Mark> sections;
  const auto begins = [&](const char* name, auto is_it) {
    const auto found = std::find_if(timeline.points.begin(), timeline.points.end(), is_it);
    if (found != timeline.points.end()) {
      sections.push_back({name, places[static_cast<size_t>(found - timeline.points.begin())]});
    }
  };
  begins("forward", [](const TimelinePoint& p) { return p.stage == StepStage::Forward; });
  begins("backward", [](const TimelinePoint& p) {
    return p.stage == StepStage::Recompute || p.stage == StepStage::Backward;
  });
  return sections;
}

/// Left out if it is far above the `highest` bytes drawn, which would look flat.
std::vector<Mark> budget_mark(const MemoryReport& report, double highest) {
  constexpr double kFar = 1.5;
  const auto budget = static_cast<double>(report.budget);
  if (report.budget == 0 || budget > kFar * highest) {
    return {};
  }
  return {{"budget " + human_bytes(budget), budget}};
}

/// `scale` has the largest bytes and time of both steps, so that the charts can be compared.
Chart timeline_chart(const MemoryReport& report,
                     const StepTimeline& timeline,
                     const char* title,
                     Point scale) {
  if (timeline.points.empty()) {
    return {};
  }
  Chart chart{.title = title,
              .note = "Activation bytes over one step; in the legend, those of its peak, " +
                      human_bytes(static_cast<double>(timeline.peak())),
              .unit = Unit::Bytes,
              .kind = ChartKind::StackedAreas,
              .width = ChartWidth::Full,
              .step_name = "time",
              .step_unit = Unit::Milliseconds,
              .is_held = true,
              .steps_reach = scale.step,
              .limits = budget_mark(report, scale.value),
              .sections = sections_of(timeline),
              .stages = stages_of(timeline),
              .reaches = scale.value,
              .lines = {}};
  for (const Part& part : kParts) {
    Series series = area_of(timeline, part.bytes);
    if (highest_of(series).value_or(0) > 0) {
      chart.lines.push_back({.name = part.name, .series = std::move(series), .color = part.color});
    }
  }
  return chart;
}

/// The possible plans, with the chosen one marked.
Chart curve_chart(const MemoryReport& report) {
  if (report.curve.empty()) {
    return {};
  }
  Line curve{.name = "best plan for each budget", .series = {}, .color = 0};
  for (const PlanPoint& point : report.curve) {
    curve.series.points.push_back({static_cast<double>(point.peak_bytes), point.extra_ms});
  }
  const Line chosen{
      .name = "this plan: " + human_bytes(static_cast<double>(report.peak_bytes)) + ", " +
              human_seconds(report.extra_ms / 1000),
      .series = {.points = {{static_cast<double>(report.peak_bytes), report.extra_ms}},
                 .broken_steps = {}},
      .color = 1,
      .has_markers = true};
  curve.has_markers = curve.series.points.size() <= kMostMarkers;
  return {.title = "What bytes buy",
          .note = "Extra time of a step against its peak of activation bytes",
          .unit = Unit::Milliseconds,
          .start = AxisStart::AtZero,
          .step_name = "peak",
          .step_unit = Unit::Bytes,
          .has_values = false,
          .lines = {chosen, curve}};
}

Chart measured_chart(const MemoryReport& report) {
  Line measured{.name = "measured", .series = {}, .color = 0};
  for (size_t i = 0; i < report.measured_peaks.size(); ++i) {
    measured.series.points.push_back(
        {static_cast<double>(i + 1), static_cast<double>(report.measured_peaks[i])});
  }
  measured.has_markers = measured.series.points.size() <= kMostMarkers;
  Line predicted{.name = "predicted", .series = {}, .color = 1, .stroke = Stroke::Dashed};
  for (const Point& point : measured.series.points) {
    predicted.series.points.push_back({point.step, static_cast<double>(report.peak_bytes)});
  }
  const double highest =
      std::max(highest_of(measured.series).value_or(0), highest_of(predicted.series).value_or(0));
  return {.title = "Predicted and measured",
          .note = "Most activation bytes of each step",
          .unit = Unit::Bytes,
          .start = AxisStart::AtZero,
          .limits = budget_mark(report, highest),
          .lines = {measured, predicted}};
}

}  // namespace

std::string memory_timelines_html(const MemoryReport& report) {
  const StepTimeline& with = report.timeline;
  const StepTimeline& without = report.plain_timeline;
  const Point scale{std::max(places_of(with).back(), places_of(without).back()),
                    static_cast<double>(std::max(with.peak(), without.peak()))};
  return section_html("Memory over one step",
                      grid_html({timeline_chart(report, with, "With the plan", scale),
                                 timeline_chart(report, without, "Without checkpointing", scale)}));
}

std::string memory_charts_html(const MemoryReport& report) {
  return section_html("Bytes and time", grid_html({curve_chart(report), measured_chart(report)}));
}

}  // namespace reprise::report
