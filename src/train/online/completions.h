// Completions that a policy sampled for prompts, and their rewards.
#pragma once

#include "train/online/experience.h"

#include <reprise/data/prompts.h>
#include <reprise/dist/world.h>
#include <reprise/io/json.h>
#include <reprise/reward/reward_list.h>
#include <reprise/train/online.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

/// Completions of one prompt form a group and are adjacent. N completions, K reward sources.
struct Completions {
  std::vector<Prompt> prompts;  ///< one per group
  std::vector<SampledSequence> rows;
  std::vector<std::string> texts;
  at::Tensor finished;  ///< (N) bool: ended by a stop token, not by the length limit
  at::Tensor rewards;   ///< (N, K) float32; NaN: not scored
  at::Tensor combined;  ///< (N): weighted sum over the sources that scored it; NaN: none did

  int64_t group_size() const;
  /// Appends groups of `from`, which are moved out of it.
  void append_groups(Completions& from, const std::vector<int64_t>& groups);

  /// Adds means and deviations of rewards and lengths, under TRL's names.
  void write_metrics(const RewardList& rewards, const std::string& prefix, Json& metrics) const;
  /// The first `count` completions as records for samples.jsonl. advantages is (N) or (N, C).
  std::vector<Json> samples(const RewardList& rewards,
                            const PromptSet& prompts,
                            const at::Tensor& advantages,
                            int64_t count) const;
};

/// Time and memory of rollout and scoring, summed over the rollouts of one generation batch.
struct PhaseCosts {
  double rollout_ms = 0, scoring_ms = 0;       ///< until the last process has finished
  int64_t rollout_tokens = 0;                  ///< in all processes
  int64_t rollout_peak = 0, scoring_peak = 0;  ///< bytes on this process's device
  bool failed_everywhere = false;              ///< the exception was thrown in all processes

  void write_to(Json& metrics) const;
};

/// Prompts to complete, for all processes together.
struct PromptBatch {
  const PromptSet& prompts;
  std::vector<int64_t> indices;  ///< of the prompts in the set
  std::vector<int64_t> numbers;  ///< select the random numbers of each prompt
};

/// Samples completions and scores them. Each process handles its share of the prompts; all get all
/// completions. If one process fails, all throw.
Completions sample_completions(const OnlineJob& job,
                               const PromptBatch& batch,
                               const RolloutOptions& options,
                               PhaseCosts& costs,
                               const World& world);

}  // namespace reprise
