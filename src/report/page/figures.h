// The key figures of a run. Those that the records do not have are unset.
#pragma once

#include <reprise/report/report.h>

#include <optional>

namespace reprise::report {

struct Figures {
  std::optional<double> first_loss, last_loss;
  std::optional<double> best_eval_loss, best_eval_step;
  std::optional<double> first_reward, last_reward;  ///< means over a tenth of the steps
  std::optional<double> best_eval_reward, best_reward_step;
  std::optional<double> rollout_tokens_per_second;
  std::optional<double> peak_bytes;
  std::optional<double> activation_bytes;        ///< the maximum over all steps
  std::optional<double> plain_activation_bytes;  ///< estimated without checkpointing
  std::optional<double> step_ms, recompute_ms;   ///< medians, since the first steps are slower
  std::optional<double> tokens_per_second;
  double total_ms = 0;
  double planning_ms = 0;  ///< of memory plans, beside total_ms
  double total_tokens = 0;
  size_t steps = 0;

  /// The fraction of activation bytes that checkpointing saves; unset if it saves none.
  std::optional<double> saved_share() const;
  /// The fraction of the step time spent in recompute; unset if there is none.
  std::optional<double> recompute_share() const;
};

Figures figures_of(const ReportRun& run);

}  // namespace reprise::report
