// Which charts the records give: known metrics in a fixed order, then all others.
#include "report/charts/chart_plan.h"
#include "report/charts/online_charts.h"
#include "report/page/html.h"
#include "report/page/parts.h"
#include "report/page/sections.h"

#include <set>

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

StackPlan memory_by_class() {
  return {.title = "Memory by class",
          .note = "At each step's peak",
          .unit = Unit::Bytes,
          .parts = {{"memory/parameters", "parameters", 0},
                    {"memory/gradients", "gradients", 5},
                    {"memory/optimizer", "optimizer", 2},
                    {"memory/activations", "activations", 1},
                    {"memory/recompute", "recompute", 4},
                    {"memory/logits", "logits", 3},
                    {"memory/other", "other", 6}}};
}

std::string memory_html(const Runs& runs) {
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
  if (runs.size() == 1) {  // with several runs, the others show it
    activations.curves.push_back(
        {"estimated_activation_bytes", "without checkpointing (estimated)", Stroke::Dashed});
  }
  return stacked_html(memory_by_class(), runs) +
         planned_html({phase_peaks(), peak, activations}, runs);
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
  return stacked_html(phase_times(), runs) + chart_html(throughput) +
         planned_html({rollout_speed(), time}, runs);
}

std::set<std::string> charted_keys(const Runs& runs) {
  // Curves of counters and times are not informative.
  std::set<std::string> keys = {"step",
                                "epoch",
                                "tokens",
                                "num_tokens",
                                "step_ms",
                                "recompute_ms",
                                "peak_bytes",
                                "activation_bytes",
                                "estimated_activation_bytes"};
  for (const auto& plans : {reward_charts(runs),
                            loss_charts(runs),
                            objective_charts(),
                            critic_charts(runs),
                            std::vector<ChartPlan>{phase_peaks(), rollout_speed()},
                            optimizer_charts()}) {
    for (const ChartPlan& plan : plans) {
      for (const Curve& curve : plan.curves) {
        keys.insert(curve.key);
      }
    }
  }
  for (const StackPart& part : phase_times().parts) {
    keys.insert(part.key);
  }
  return keys;
}

std::string other_html(const Runs& runs) {
  const std::set<std::string> charted = charted_keys(runs);
  std::vector<ChartPlan> plans;
  for (const std::string& key : keys_of(runs)) {
    if (charted.contains(key)) {
      continue;
    }
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

}  // namespace

std::string learning_html(const Runs& runs) {
  return section_html(
      "Learning",
      grid_html(planned_html(reward_charts(runs), runs) + planned_html(loss_charts(runs), runs) +
                planned_html(objective_charts(), runs) + planned_html(critic_charts(runs), runs)));
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
