// Which charts the records give: the known quantities in a fixed order, then whatever else there
// is.
#include "train/report/chart_plan.h"
#include "train/report/html.h"
#include "train/report/sections.h"
#include "train/report/stack.h"

#include <algorithm>
#include <array>
#include <set>

namespace reprise::report {
namespace {

Curve eval_curve(const std::string& key) {
  return {"eval_" + key, "eval", Stroke::Dashed, true};
}

std::vector<ChartPlan> loss_charts() {
  return {{.title = "Loss",
           .note = "",
           .curves = {{"loss", "train"}, eval_curve("loss")},
           .width = ChartWidth::Full,
           .may_be_log = true,
           .is_smoothed = true}};
}

std::vector<ChartPlan> optimizer_charts() {
  return {{.title = "Learning rate",
           .note = "",
           .curves = {{"learning_rate", "learning rate"}},
           .start = AxisStart::AtZero},
          {.title = "Gradient norm",
           .note = "Before clipping",
           .curves = {{"grad_norm", "gradient norm"}},
           .start = AxisStart::AtZero,
           .may_be_log = true}};
}

std::vector<ChartPlan> objective_charts() {
  return {{.title = "Rewards",
           .note = "Implicit rewards of preferred and rejected answers",
           .curves = {{"rewards/chosen", "chosen"},
                      {"rewards/rejected", "rejected", Stroke::Dashed},
                      {"rewards/margins", "margin"}}},
          {.title = "Reward accuracy",
           .note = "Pairs whose preferred answer has the higher reward",
           .curves = {{"rewards/accuracies", "train"}, eval_curve("rewards/accuracies")},
           .unit = Unit::Share,
           .is_share = true},
          {.title = "Log-probabilities",
           .note = "",
           .curves = {{"logps/chosen", "chosen"}, {"logps/rejected", "rejected", Stroke::Dashed}}},
          {.title = "KL", .note = "", .curves = {{"kl", "KL"}, eval_curve("kl")}},
          {.title = "Token accuracy",
           .note = "Trained tokens that the model would have chosen",
           .curves = {{"mean_token_accuracy", "train"}, eval_curve("mean_token_accuracy")},
           .unit = Unit::Share,
           .is_share = true},
          {.title = "Entropy",
           .note = "Of the model's next-token distribution, in nats",
           .curves = {{"entropy", "train"}, eval_curve("entropy")}}};
}

/// Of one run; the classes keep their colours whether or not all are there.
Chart memory_chart(const ReportRun& run, bool is_one_of_several) {
  struct MemoryClass {
    const char* name;
    int color;
  };
  constexpr std::array<MemoryClass, 7> kClasses = {{{"parameters", 0},
                                                    {"gradients", 5},
                                                    {"optimizer", 2},
                                                    {"activations", 1},
                                                    {"recompute", 4},
                                                    {"logits", 3},
                                                    {"other", 6}}};
  Chart chart{.title = is_one_of_several ? "Memory by class, " + run.name : "Memory by class",
              .note = "At each step's peak",
              .unit = Unit::Bytes,
              .kind = ChartKind::StackedAreas,
              .width = is_one_of_several ? ChartWidth::Half : ChartWidth::Full,
              .lines = {}};
  for (const MemoryClass& one : kClasses) {
    const std::string name = one.name;
    Series series = series_of(run.steps, "memory/" + name);
    if (highest_of(series).value_or(0) > 0) {
      chart.lines.push_back({.name = name, .series = std::move(series), .color = one.color});
    }
  }
  return chart;
}

std::string memory_html(const Runs& runs) {
  std::vector<Chart> by_class;
  double highest = 0;
  for (const ReportRun& run : runs) {
    by_class.push_back(memory_chart(run, runs.size() > 1));
    if (!by_class.back().lines.empty()) {
      highest = std::max(highest, highest_total(stack_of(by_class.back().lines)));
    }
  }
  std::string charts;
  for (Chart& chart : by_class) {
    chart.reaches = highest;
    charts += chart_html(chart);
  }
  const ChartPlan peak{.title = "Peak memory",
                       .note = "",
                       .curves = {{"peak_bytes", "peak"}},
                       .unit = Unit::Bytes,
                       .start = AxisStart::AtZero};
  ChartPlan activations{.title = "Activations",
                        .note = "Kept from forward to backward",
                        .curves = {{"activation_bytes", "measured"}},
                        .unit = Unit::Bytes,
                        .start = AxisStart::AtZero};
  if (runs.size() == 1) {  // beside other runs, those show it
    activations.curves.push_back(
        {"estimated_activation_bytes", "without checkpointing (estimated)", Stroke::Dashed});
  }
  return charts + planned_html({peak, activations}, runs);
}

std::string speed_html(const Runs& runs) {
  Chart throughput{.title = "Throughput",
                   .note = "",
                   .unit = Unit::TokensPerSecond,
                   .start = AxisStart::AtZero,
                   .lines = {}};
  for (size_t run = 0; run < runs.size(); ++run) {
    throughput.lines.push_back({.name = runs.size() == 1 ? "tokens per second" : runs[run].name,
                                .series = ratio_of(runs[run].steps, "tokens", "step_ms", 1000),
                                .color = color_of(run, 0, runs.size())});
  }
  const ChartPlan time{
      .title = "Step time",
      .note = "",
      .curves = {{"step_ms", "step"}, {"recompute_ms", "recompute", Stroke::Dashed}},
      .unit = Unit::Milliseconds,
      .start = AxisStart::AtZero};
  return chart_html(throughput) + planned_html({time}, runs);
}

std::set<std::string> charted_keys() {
  // Counters and times have no curve of their own that would tell anything.
  std::set<std::string> keys = {"step",
                                "epoch",
                                "tokens",
                                "num_tokens",
                                "step_ms",
                                "recompute_ms",
                                "peak_bytes",
                                "activation_bytes",
                                "estimated_activation_bytes"};
  for (const auto& plans : {loss_charts(), optimizer_charts(), objective_charts()}) {
    for (const ChartPlan& plan : plans) {
      for (const Curve& curve : plan.curves) {
        keys.insert(curve.key);
      }
    }
  }
  return keys;
}

std::string other_html(const Runs& runs) {
  std::set<std::string> seen = charted_keys();
  std::vector<std::string> keys;
  for (const ReportRun& run : runs) {
    for (const std::string& key : numeric_keys(run.steps)) {
      if (seen.insert(key).second) {
        keys.push_back(key);
      }
    }
  }
  std::vector<ChartPlan> plans;
  for (const std::string& key : keys) {
    const bool is_bytes = key.ends_with("_bytes");
    const bool is_time = key.ends_with("_ms");
    plans.push_back({.title = label_of(key),
                     .note = "",
                     .curves = {{key, key}},
                     .unit = is_bytes  ? Unit::Bytes
                             : is_time ? Unit::Milliseconds
                                       : Unit::Number});
  }
  return planned_html(plans, runs);
}

std::string grid_html(const std::string& charts) {
  return charts.empty() ? charts : element("div", "class=\"charts\"", charts);
}

}  // namespace

std::string learning_html(const Runs& runs) {
  return section_html(
      "Learning",
      grid_html(planned_html(loss_charts(), runs) + planned_html(objective_charts(), runs)));
}

std::string resources_html(const Runs& runs) {
  return section_html("Memory", grid_html(memory_html(runs))) +
         section_html("Speed", grid_html(speed_html(runs)));
}

std::string other_charts_html(const Runs& runs) {
  return section_html("Optimizer", grid_html(planned_html(optimizer_charts(), runs))) +
         section_html("Other metrics", grid_html(other_html(runs)));
}

}  // namespace reprise::report
