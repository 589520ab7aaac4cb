// From prompts to experience: rollout, rewards, frozen passes, advantages.
//
// Processes share the work of rollouts, rewards and frozen passes. What comes out is the same in
// all of them: advantages, their normalisation, filters and the KL's coefficient are of the whole
// generation batch.
#pragma once

#include "train/answers.h"
#include "train/experience.h"

#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/train/online.h>

#include <cstdint>
#include <vector>

namespace reprise {

/// What changes from generation batch to generation batch.
struct CollectorState {
  int64_t prompts_used = 0;  ///< which prompts come next, and with which random numbers
  double kl_coef = 0;        ///< of the KL in the reward
};

/// A generation batch and what there is to say about it.
struct Collected {
  Experience experience;
  Json figures = Json::object();  ///< for metrics.jsonl
  std::vector<Json> samples;      ///< for samples.jsonl, without the step
};

class REPRISE_API Collector {
 public:
  Collector(const OnlineJob& job, const OnlineOptions& options, const World& world);

  /// The next batch of so many prompts. Its rows come out in `order` (N), in which they are learned
  /// from: frozen passes see the micro-batches that training will see, so that what does not differ
  /// is equal to the last bit.
  Collected next(int64_t prompts, const at::Tensor& order, CollectorState& state);

  /// After next() threw: it did in all processes.
  bool has_failed_together() const { return has_failed_together_; }

  /// "eval_reward" and further figures of all evaluation prompts, one greedy answer each.
  Json evaluate();

 private:
  int64_t prompt_at(int64_t number);
  Answers next_answers(int64_t prompts, CollectorState& state, PhaseCosts& costs, Json& figures);
  at::Tensor mask_of(const Answers& answers, const at::Tensor& mask) const;
  void add_logprobs(Experience& experience) const;
  void add_values(Experience& experience) const;

  const OnlineJob& job_;
  const OnlineOptions& options_;
  const World& world_;
  bool has_failed_together_ = false;
  int64_t epoch_ = -1;  // that order_ is of
  std::vector<int64_t> order_;
};

}  // namespace reprise
