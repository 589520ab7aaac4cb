// Which charts the records give: known metrics in a fixed order, then all others.
#include "report/charts/chart_plan.h"
#include "report/charts/online_charts.h"
#include "report/charts/other_charts.h"
#include "report/page/html.h"
#include "report/page/parts.h"
#include "report/page/sections.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace reprise::report {
namespace {

/// In online training the loss says little, so it is not the first chart.
std::vector<ChartPlan> loss_charts(const Runs& runs) {
  return {{.title = "Loss",
           .note = "",
           .curves = {{"loss", "train"}, eval_curve("loss")},
           .width = has_rewards(runs) ? ChartWidth::Half : ChartWidth::Full,
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
                      {"rewards/margins", "margin"},
                      {"eval_rewards/chosen", "chosen, eval", Stroke::Dashed, true},
                      {"eval_rewards/rejected", "rejected, eval", Stroke::Dashed, true},
                      {"eval_rewards/margins", "margin, eval", Stroke::Dashed, true}}},
          {.title = "Reward accuracy",
           .note = "Pairs whose preferred answer has the higher reward",
           .curves = {{"rewards/accuracies", "train"}, eval_curve("rewards/accuracies")},
           .unit = Unit::Share,
           .is_share = true},
          {.title = "Log-probabilities",
           .note = "",
           .curves = {{"logps/chosen", "chosen"},
                      {"logps/rejected", "rejected", Stroke::Dashed},
                      {"eval_logps/chosen", "chosen, eval", Stroke::Dashed, true},
                      {"eval_logps/rejected", "rejected, eval", Stroke::Dashed, true}}},
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

StackPlan memory_by_class(const std::string& role = {},
                          const std::string& title = "Memory by class") {
  StackPlan plan{.title = title,
                 .note = "At each step's peak",
                 .unit = Unit::Bytes,
                 .parts = {{"parameters", "parameters", 0},
                           {"gradients", "gradients", 5},
                           {"optimizer", "optimizer", 2},
                           {"activations", "activations", 1},
                           {"recompute", "recompute", 4},
                           {"logits", "logits", 3},
                           {"other", "other", 6}}};
  for (StackPart& part : plan.parts) {
    part.key = role + "memory/" + part.key;
  }
  return plan;
}

ChartPlan planning_time() {
  return {.title = "Planning",
          .note = "Time spent on memory plans before a step, which is not part of it",
          .curves = {{"budget/planning_ms", "planning"}},
          .unit = Unit::Milliseconds,
          .start = AxisStart::AtZero};
}

std::vector<Chart> joined(std::vector<Chart> first, std::vector<Chart> second) {
  first.insert(
      first.end(), std::make_move_iterator(second.begin()), std::make_move_iterator(second.end()));
  return first;
}

bool has_points(const std::string& key, const Runs& runs) {
  return std::any_of(runs.begin(), runs.end(), [&](const ReportRun& run) {
    return !series_of(run.steps, key).points.empty();
  });
}

std::vector<Chart> memory_charts(const Runs& runs) {
  const ChartPlan peak{.title = "Peak memory",
                       .note = "",
                       .curves = {{"peak_bytes", "peak"}},
                       .unit = Unit::Bytes,
                       .start = AxisStart::AtZero};
  ChartPlan activations{
      .title = "Activations",
      .note =
          "Kept from forward to backward, and the most at once, which a "
          "budget for activations limits",
      .curves = {{"activation_bytes", "kept"}, {"activation_peak_bytes", "most at once"}},
      .unit = Unit::Bytes,
      .start = AxisStart::AtZero};
  if (runs.size() == 1) {  // with several runs, the others show it
    activations.curves.push_back(
        {"estimated_activation_bytes", "kept without checkpointing", Stroke::Dashed});
  }
  return joined(stacked(memory_by_class(), runs),
                planned({phase_peaks(), peak, activations}, runs));
}

std::vector<Chart> speed_charts(const Runs& runs) {
  Chart throughput{.title = "Throughput",
                   .note = "",
                   .unit = Unit::TokensPerSecond,
                   .start = AxisStart::AtZero,
                   .lines = {}};
  for (size_t run = 0; run < runs.size(); ++run) {
    throughput.lines.push_back({.name = runs.size() == 1 ? "tokens per second" : runs[run].name,
                                .series = ratio_of(runs[run].steps, "tokens", "step_ms", 1000),
                                .color = color_of(run, 0, runs.size()),
                                .clock = clock_of(runs[run])});
  }
  const ChartPlan time{
      .title = "Step time",
      .note = "",
      .curves = {{"step_ms", "step"}, {"recompute_ms", "recompute", Stroke::Dashed}},
      .unit = Unit::Milliseconds,
      .start = AxisStart::AtZero};
  return joined(joined(stacked(phase_times(), runs), {std::move(throughput)}),
                planned({rollout_speed(), time, planning_time()}, runs));
}

std::vector<ChartPlan> known_charts(const Runs& runs) {
  std::vector<ChartPlan> all;
  for (const auto& plans : {reward_charts(runs),
                            loss_charts(runs),
                            objective_charts(),
                            critic_charts(runs),
                            std::vector<ChartPlan>{phase_peaks(), rollout_speed()},
                            optimizer_charts()}) {
    all.insert(all.end(), plans.begin(), plans.end());
  }
  return all;
}

std::vector<ChartPlan> unknown_charts(const Runs& runs) {
  // Curves of counters and times are not informative.
  std::set<std::string> charted = {"step",
                                   "epoch",
                                   "tokens",
                                   "num_tokens",
                                   "step_ms",
                                   "step_time",
                                   "recompute_ms",
                                   "eval_ms",
                                   "peak_bytes",
                                   "activation_bytes",
                                   "activation_peak_bytes",
                                   "estimated_activation_bytes"};
  for (const ChartPlan& plan : known_charts(runs)) {
    for (const Curve& curve : plan.curves) {
      charted.insert(curve.key);
    }
  }
  for (const StackPart& part : phase_times().parts) {
    charted.insert(part.key);
  }
  return other_charts(keys_of(runs), charted);
}

}  // namespace

std::string learning_html(const Runs& runs) {
  return section_html("Learning",
                      grid_html(joined(planned(reward_charts(runs), runs),
                                       joined(planned(loss_charts(runs), runs),
                                              planned(objective_charts(), runs))))) +
         section_html("Critic",
                      grid_html(joined(
                          planned(critic_charts(runs), runs),
                          stacked(memory_by_class("critic/", "Critic memory by class"), runs))));
}

std::string resources_html(const Runs& runs) {
  return section_html("Memory", grid_html(memory_charts(runs))) +
         section_html("Speed", grid_html(speed_charts(runs)));
}

std::string other_charts_html(const Runs& runs) {
  return section_html("Optimizer", grid_html(planned(optimizer_charts(), runs))) +
         section_html("Other metrics", grid_html(planned(unknown_charts(runs), runs)));
}

std::string constants_html(const Runs& runs) {
  auto plans = known_charts(runs);
  for (ChartPlan& plan : unknown_charts(runs)) {
    plans.push_back(std::move(plan));
  }
  std::string body;
  for (const ChartPlan& plan : plans) {
    if (!is_constant(plan, runs)) {
      continue;
    }
    for (const Curve& curve : plan.curves) {
      std::string row;
      for (const ReportRun& run : runs) {
        const Series series = series_of(run.steps, curve.key);
        row += text_element(
            "td",
            "number",
            series.points.empty() ? "–" : with_unit(series.points.front().value, plan.unit));
      }
      if (row.find_first_not_of(' ') != std::string::npos && has_points(curve.key, runs)) {
        body += element("tr", "", text_element("th", "name", curve.key) + row);
      }
    }
  }
  std::string head = text_element("th", "", "Metric");
  for (const ReportRun& run : runs) {
    head += text_element("th", "number", runs.size() == 1 ? "Value" : run.name);
  }
  return section_html("Constant over the run", body.empty() ? body : table_html(head, body));
}

}  // namespace reprise::report
