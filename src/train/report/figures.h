// The figures of a run that its reader asks for first. What the records do not give is not there.
#pragma once

#include <reprise/train/report.h>

#include <optional>

namespace reprise::report {

struct Figures {
  std::optional<double> first_loss, last_loss;
  std::optional<double> best_eval_loss, best_eval_step;
  std::optional<double> first_reward, last_reward;  ///< means of a tenth of the steps
  std::optional<double> best_eval_reward, best_reward_step;
  std::optional<double> rollout_tokens_per_second;
  std::optional<double> peak_bytes;
  std::optional<double> activation_bytes;        ///< the most of all steps
  std::optional<double> plain_activation_bytes;  ///< estimated without checkpointing
  std::optional<double> step_ms, recompute_ms;   ///< medians, as the first steps warm up
  std::optional<double> tokens_per_second;
  double total_ms = 0;
  double total_tokens = 0;
  size_t steps = 0;

  /// The share of the plain activations that checkpointing avoids.
  std::optional<double> saved_share() const;
  /// The share of a step's time that recompute takes.
  std::optional<double> recompute_share() const;
};

Figures figures_of(const ReportRun& run);

}  // namespace reprise::report
