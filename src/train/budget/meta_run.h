// A training run on meta tensors: the models and the loss as the trainers make them, and one step
// for any batch shape.
#pragma once

#include "plan/trace/meta_trace.h"
#include "train/budget/placement.h"

#include <reprise/train/model_plan.h>
#include <reprise/train/objective.h>

#include <memory>

namespace reprise {

class MetaRun {
 public:
  explicit MetaRun(const ModelPlanRequest& request);

  const StandingBytes& standing() const { return standing_; }
  /// The tokens of a micro-batch.
  int64_t tokens(int64_t rows, int64_t length) const;
  /// The most tokens that a row can have. Only learned position embeddings limit them.
  int64_t most_positions() const;
  /// What a step moves between host and device, both ways together.
  PlacedBytes placed() const { return placed_; }
  /// The time of the optimizer's update, from the bytes that it reads and writes, and of copies
  /// from host memory that nothing hides.
  double update_ms() const;
  /// Traces one micro-batch with every block a region.
  planning::PredictedStep step(int64_t rows, int64_t length);

 private:
  std::shared_ptr<Model> model_of(const ModelConfig& config, HeadKind head) const;
  ModelConfig critic_config() const;
  std::shared_ptr<Model> policy() const;
  void make_objective();
  void count_bytes();
  void count_shard_bytes();
  Batch batch_of(int64_t rows, int64_t length) const;
  void run(const Batch& batch);

  const ModelPlanRequest& request_;
  planning::MetaScope scope_;
  std::shared_ptr<Model> model_, critic_;
  std::unique_ptr<TrainingObjective> objective_;  // null for grpo and ppo
  std::unique_ptr<Optimizer> optimizer_;          // of the policy, if its gradients leave
  StandingBytes standing_;
  PlacedBytes placed_;  // gradients and state, wherever they are
};

}  // namespace reprise
