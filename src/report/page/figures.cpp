// Figures come from the records; the summary fills in those that the records lack.
#include "report/page/figures.h"

#include "report/charts/series.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace reprise::report {
namespace {

std::optional<double> or_summary(std::optional<double> figure,
                                 const ReportRun& run,
                                 const char* key) {
  return figure ? figure : number_at(run.summary, key);
}

/// std::nullopt if the denominator is not positive.
std::optional<double> share(std::optional<double> part, std::optional<double> whole) {
  if (!part || !whole || *whole <= 0) {
    return std::nullopt;
  }
  return *part / *whole;
}

bool is_lower(const Point& a, const Point& b) {
  return a.value < b.value;
}

double mean_of(const std::vector<Point>& points) {
  return sum_of({points, {}}) / static_cast<double>(points.size());
}

void add_losses(Figures& figures, const ReportRun& run) {
  const Series loss = series_of(run.steps, "loss");
  if (!loss.points.empty()) {
    figures.first_loss = loss.points.front().value;
    figures.last_loss = loss.points.back().value;
  }
  figures.steps = loss.points.size() + loss.broken_steps.size();
  const Series eval = series_of(run.steps, "eval_loss");
  const auto best = std::min_element(eval.points.begin(), eval.points.end(), is_lower);
  if (best != eval.points.end()) {
    figures.best_eval_loss = best->value;
    figures.best_eval_step = best->step;
  }
}

/// The reward of a single step depends on its prompts, so a tenth of the steps is averaged.
void add_rewards(Figures& figures, const ReportRun& run) {
  const std::vector<Point> points = series_of(run.steps, "reward").points;
  if (!points.empty()) {
    const auto tenth = static_cast<std::ptrdiff_t>((points.size() + 9) / 10);
    figures.first_reward = mean_of({points.begin(), points.begin() + tenth});
    figures.last_reward = mean_of({points.end() - tenth, points.end()});
  }
  const Series eval = series_of(run.steps, "eval_reward");
  const auto best = std::max_element(eval.points.begin(), eval.points.end(), is_lower);
  if (best != eval.points.end()) {
    figures.best_eval_reward = best->value;
    figures.best_reward_step = best->step;
  }
}

}  // namespace

std::optional<double> Figures::saved_share() const {
  const auto kept = share(activation_bytes, plain_activation_bytes);
  return kept && *kept < 1 ? std::optional(1 - *kept) : std::nullopt;
}

std::optional<double> Figures::recompute_share() const {
  const auto spent = share(recompute_ms, step_ms);
  return spent && *spent > 0 ? spent : std::nullopt;
}

Figures figures_of(const ReportRun& run) {
  const auto highest = [&](const char* key) {
    return or_summary(highest_of(series_of(run.steps, key)), run, key);
  };
  const auto median = [&](const char* key) {
    return or_summary(median_of(series_of(run.steps, key)), run, key);
  };
  Figures figures;
  add_losses(figures, run);
  add_rewards(figures, run);
  figures.rollout_tokens_per_second = median("rollout_tokens_per_second");
  figures.peak_bytes = highest("peak_bytes");
  figures.activation_bytes = highest("activation_bytes");
  figures.plain_activation_bytes = highest("estimated_activation_bytes");
  figures.step_ms = median("step_ms");
  figures.recompute_ms = median("recompute_ms");
  figures.tokens_per_second = median_of(ratio_of(run.steps, "tokens", "step_ms", 1000));
  figures.planning_ms = sum_of(series_of(run.steps, "budget/planning_ms"));
  figures.total_ms = sum_of(series_of(run.steps, "step_ms"));
  figures.total_tokens = sum_of(series_of(run.steps, "tokens"));
  return figures;
}

}  // namespace reprise::report
