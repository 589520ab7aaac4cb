// Which charts the records give: known metrics in a fixed order, then all others.
#include "report/charts/chart_plan.h"
#include "report/charts/online_charts.h"
#include "report/charts/other_charts.h"
#include "report/charts/resource_charts.h"
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

std::vector<ChartPlan> known_charts(const Runs& runs) {
  std::vector<ChartPlan> all;
  for (const auto& plans : {reward_charts(runs),
                            loss_charts(runs),
                            objective_charts(),
                            critic_charts(runs),
                            memory_plans(runs),
                            speed_plans(),
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
                                   "step_time",
                                   "eval_ms",
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
  return section_html("Memory",
                      grid_html(joined(stacked(memory_by_class("", "Memory by class"), runs),
                                       planned(memory_plans(runs), runs)))) +
         section_html(
             "Speed",
             grid_html(joined(joined(stacked(phase_times(), runs), {throughput_chart(runs)}),
                              planned(speed_plans(), runs))));
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
      if (has_points(curve.key, runs)) {
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
