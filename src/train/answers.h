// What a policy answered to prompts, and how it was judged.
#pragma once

#include "train/experience.h"

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

/// Completions of one prompt, a group, stand next to each other.
struct Answers {
  std::vector<Prompt> prompts;  ///< one for each group
  std::vector<SampledRow> rows;
  std::vector<std::string> texts;
  at::Tensor finished;  ///< (N) bool
  at::Tensor rewards;   ///< (N, K) float32, NaN: not scored
  at::Tensor combined;  ///< (N): the weighted sum of the sources that could score

  int64_t group_size() const;
  /// Moves groups of another batch behind those that are there.
  void take(Answers& from, const std::vector<int64_t>& groups);

  /// Means and deviations of rewards, and lengths, under the names that TRL has for them.
  void describe(const RewardList& rewards, const std::string& prefix, Json& figures) const;
  /// The first `count`, for people. advantages (N) or (N, C).
  std::vector<Json> samples(const RewardList& rewards,
                            const PromptSet& prompts,
                            const at::Tensor& advantages,
                            int64_t count) const;
};

/// What rollout and scoring took, of all rollouts for one generation batch.
struct PhaseCosts {
  double rollout_ms = 0, scoring_ms = 0;       ///< until the last process was done
  int64_t rollout_tokens = 0;                  ///< of all processes
  int64_t rollout_peak = 0, scoring_peak = 0;  ///< bytes on this process's device of the policy
  bool has_failed_everywhere = false;          ///< an error that all processes have

  void write_to(Json& figures) const;
};

/// Which prompts are asked, by all processes together, and by which numbers their random numbers
/// are drawn.
struct Questions {
  const PromptSet& prompts;
  std::vector<int64_t> indices;
  std::vector<int64_t> numbers;
};

/// Samples completions and has them judged. Each process asks its share of the prompts, and all get
/// all answers. A failure in one is a failure in all.
Answers ask(const OnlineJob& job,
            const Questions& questions,
            const RolloutOptions& options,
            PhaseCosts& costs,
            const World& world);

}  // namespace reprise
