// Makes generation batches: rollout, rewards, scoring passes, advantages.
//
// Processes share the work of rollouts, rewards and scoring passes. The result is the same in all
// of them: advantages, their normalisation, group filters and the KL coefficient are computed over
// the whole generation batch.
#pragma once

#include "train/online/completions.h"
#include "train/online/experience.h"

#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/train/online.h>

#include <cstdint>
#include <vector>

namespace reprise {

/// State that is carried from one generation batch to the next; part of checkpoints.
struct GenerationState {
  int64_t prompts_used = 0;  ///< determines the next prompts and their random numbers
  double kl_coef = 0;        ///< of the KL in the reward
};

struct GenerationBatch {
  Experience experience;
  Json metrics = Json::object();  ///< for metrics.jsonl
  std::vector<Json> samples;      ///< for samples.jsonl, without the step
};

class REPRISE_API ExperienceMaker {
 public:
  ExperienceMaker(const OnlineJob& job, const OnlineOptions& options, const World& world);

  /// The next generation batch of so many prompts, with its rows in `order` (N), the order in which
  /// they are trained on. Scoring passes use the same micro-batches as training, so that equal
  /// inputs give equal bits.
  GenerationBatch next(int64_t prompts, const at::Tensor& order, GenerationState& state);

  /// Valid after next() threw: whether it threw in all processes.
  bool failed_everywhere() const { return failed_everywhere_; }

  /// "eval_reward" and other metrics over all evaluation prompts, with one greedy completion each.
  Json evaluate();

 private:
  int64_t prompt_at(int64_t number);
  Completions next_completions(int64_t prompts,
                               GenerationState& state,
                               PhaseCosts& costs,
                               Json& metrics);
  at::Tensor mask_of(const Completions& completions, const at::Tensor& mask) const;
  void add_logprobs(Experience& experience) const;
  void add_values(Experience& experience) const;

  const OnlineJob& job_;
  const OnlineOptions& options_;
  const World& world_;
  bool failed_everywhere_ = false;
  int64_t epoch_ = -1;  // the epoch of order_
  std::vector<int64_t> order_;
};

}  // namespace reprise
