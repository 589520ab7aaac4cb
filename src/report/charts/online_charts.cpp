// Reward sources differ between runs, so their curves follow from the keys in the records.
#include "report/charts/online_charts.h"

#include "report/charts/other_charts.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace reprise::report {
namespace {

/// One curve per key with this prefix and suffix, named by the part between them.
std::vector<Curve> curves_between(const std::vector<std::string>& keys,
                                  std::string_view prefix,
                                  std::string_view suffix) {
  std::vector<Curve> curves;
  for (const std::string& key : keys) {
    if (key.size() > prefix.size() + suffix.size() && key.starts_with(prefix) &&
        key.ends_with(suffix)) {
      curves.push_back(
          {key, key.substr(prefix.size(), key.size() - prefix.size() - suffix.size())});
    }
  }
  return curves;
}

std::vector<Curve> source_means(const std::vector<std::string>& keys) {
  std::vector<Curve> curves = curves_between(keys, "rewards/", "/mean");
  for (const Curve& curve : curves_between(keys, "eval_rewards/", "/mean")) {
    curves.push_back({curve.key, curve.name + ", eval", Stroke::Dashed, true});
  }
  return curves;
}

std::vector<ChartPlan> answer_charts() {
  return {
      {.title = "Completion length",
       .note = "In tokens",
       .curves = {{"completions/mean_length", "mean"},
                  {"completions/min_length", "shortest", Stroke::Dashed},
                  {"completions/max_length", "longest", Stroke::Dashed},
                  {"eval_completions/mean_length", "mean, eval", Stroke::Dashed, true}},
       .start = AxisStart::AtZero},
      {.title = "Length of finished completions",
       .note = "In tokens",
       .curves = {{"completions/mean_terminated_length", "mean"},
                  {"completions/min_terminated_length", "shortest", Stroke::Dashed},
                  {"completions/max_terminated_length", "longest", Stroke::Dashed}},
       .start = AxisStart::AtZero},
      {.title = "Truncated completions",
       .note = "Share that reached the limit before an end",
       .curves = {{"completions/clipped_ratio", "train"}, eval_curve("completions/clipped_ratio")},
       .unit = Unit::Share,
       .is_share = true},
      {.title = "Groups without signal",
       .note = "Share of prompts whose completions all have the same reward",
       .curves = {{"frac_reward_zero_std", "train"}, eval_curve("frac_reward_zero_std")},
       .unit = Unit::Share,
       .is_share = true}};
}

}  // namespace

bool has_rewards(const Runs& runs) {
  return std::any_of(runs.begin(), runs.end(), [](const ReportRun& run) {
    return !series_of(run.steps, "reward").points.empty();
  });
}

std::vector<ChartPlan> reward_charts(const Runs& runs) {
  const std::vector<std::string> keys = keys_of(runs);
  std::vector<ChartPlan> plans = {
      {.title = "Reward",
       .note = "Of a step's completions: their mean, and their standard deviation",
       .curves = {{"reward", "mean"},
                  eval_curve("reward"),
                  {"reward_std", "deviation", Stroke::Dashed}},
       .width = ChartWidth::Full,
       .is_smoothed = true},
      {.title = "Reward by source", .note = "Means", .curves = source_means(keys)},
      {.title = "Spread of rewards by source",
       .note = "Standard deviations",
       .curves = curves_between(keys, "rewards/", "/std"),
       .start = AxisStart::AtZero}};
  for (ChartPlan& plan : answer_charts()) {
    plans.push_back(std::move(plan));
  }
  plans.push_back({.title = "Clipped ratios",
                   .note = "Share of tokens whose policy ratio was clipped",
                   .curves = curves_between(keys, "clip_ratio/", ""),
                   .unit = Unit::Share,
                   .start = AxisStart::AtZero});
  return plans;
}

std::vector<ChartPlan> critic_charts(const Runs& runs) {
  std::vector<ChartPlan> plans;
  ChartPlan memory{.title = "Critic memory",
                   .note = "",
                   .curves = {},
                   .unit = Unit::Bytes,
                   .start = AxisStart::AtZero};
  ChartPlan time{.title = "Critic recompute",
                 .note = "",
                 .curves = {},
                 .unit = Unit::Milliseconds,
                 .start = AxisStart::AtZero};
  for (const Curve& curve : curves_between(keys_of(runs), "critic/", "")) {
    const Unit unit = unit_of(curve.key);
    if (unit == Unit::Bytes || unit == Unit::Milliseconds) {
      const bool is_bytes = unit == Unit::Bytes;
      const size_t end = curve.name.rfind(is_bytes ? "_bytes" : "_ms");
      std::string name = curve.name.substr(0, end);
      std::replace(name.begin(), name.end(), '_', ' ');
      (is_bytes ? memory : time).curves.push_back({curve.key, name});
      continue;
    }
    plans.push_back({.title = label_of("critic_" + curve.name),
                     .note = "",
                     .curves = {{curve.key, curve.name}},
                     .unit = unit});
  }
  plans.push_back(std::move(memory));
  plans.push_back(std::move(time));
  return plans;
}

StackPlan phase_times() {
  return {
      .title = "Time of a step",
      .note = "By phase",
      .unit = Unit::Milliseconds,
      .parts = {
          {"rollout_ms", "rollout", 0}, {"scoring_ms", "scoring", 4}, {"update_ms", "update", 2}}};
}

ChartPlan phase_peaks() {
  return {.title = "Peak memory of each phase",
          .note = "",
          .curves = {{"rollout_peak_bytes", "rollout"},
                     {"scoring_peak_bytes", "scoring", Stroke::Dashed},
                     {"update_peak_bytes", "update"}},
          .unit = Unit::Bytes,
          .start = AxisStart::AtZero};
}

ChartPlan rollout_speed() {
  return {.title = "Rollout speed",
          .note = "",
          .curves = {{"rollout_tokens_per_second", "tokens per second"}},
          .unit = Unit::TokensPerSecond,
          .start = AxisStart::AtZero};
}

}  // namespace reprise::report
