// A training run on tensors without memory: the models and the loss as the trainers make them, and
// one step of it for any shape of batch.
#pragma once

#include "plan/meta_trace.h"

#include <reprise/train/model_plan.h>
#include <reprise/train/objective.h>

#include <memory>

namespace reprise {

class PlannedRun {
 public:
  explicit PlannedRun(const ModelPlanRequest& request);

  const StandingBytes& standing() const { return standing_; }
  /// Tokens of a micro-batch.
  int64_t tokens(int64_t rows, int64_t length) const;
  /// That a row can have: of a model that has learned its positions, so many.
  int64_t most_positions() const;
  /// The optimizer's update, by the bytes that it reads and writes.
  double update_ms() const;
  /// One micro-batch, every block a region.
  planning::PredictedStep step(int64_t rows, int64_t length);

 private:
  std::shared_ptr<Model> model_of(const ModelConfig& config, HeadKind head) const;
  std::shared_ptr<Model> policy() const;
  void make_objective();
  void count_bytes();
  void count_spread_bytes();
  Batch batch_of(int64_t rows, int64_t length) const;
  void run(const Batch& batch);

  const ModelPlanRequest& request_;
  planning::MetaScope scope_;
  std::shared_ptr<Model> model_, critic_;
  std::unique_ptr<TrainingObjective> objective_;  // null: the policy of grpo and ppo
  StandingBytes standing_;
};

}  // namespace reprise
