// A model that is trained: one optimizer step of it, whatever its loss is and wherever its batches
// come from.
//
// A step is: forward and backward of every micro-batch, clip, update; then a look whether
// checkpointing did what was asked.
#pragma once

#include "train/budget/step_budget.h"
#include "train/metric_sums.h"

#include <reprise/dist/world.h>
#include <reprise/optim/optimizer.h>
#include <reprise/optim/schedule.h>
#include <reprise/parallel/spread.h>
#include <reprise/train/effect.h>
#include <reprise/train/memory_meter.h>
#include <reprise/train/objective.h>
#include <reprise/train/trainer.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace reprise {

/// What a step is made of. Functions take the number of the micro-batch.
struct StepWork {
  size_t micro_batches = 0;
  double total_weight = 1;  ///< see StepContext, of this process
  /// The part of the step's loss. Called once for each, in order; before that perhaps a few times
  /// more, to find out what its memory is needed for.
  std::function<BatchLoss(size_t, const StepContext&)> loss;
  /// What its memory depends on.
  std::function<BatchShape(size_t)> shape;
  /// The message if its loss is not finite.
  std::function<std::string(size_t)> not_finite;
  int64_t frozen_bytes = 0;  ///< of parameters beside the model's
  /// Takes part, counts nothing: where other processes have a micro-batch more. Null: none.
  std::function<bool(size_t)> is_filler = {};
};

struct StepOutcome {
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  CheckpointingEffect effect;
  std::optional<BudgetOutcome> budget = {};  ///< of runs within a budget
  MetricSums metrics;
};

class Learner {
 public:
  /// `name` is its folder in checkpoints; empty: the run's own model.
  Learner(std::string name,
          Model& model,
          const TrainerOptions& options,
          int64_t total_steps,
          const World& world);

  /// Step number `step`, from 0. Throws for a loss or gradient that is not finite, for memory that
  /// runs out, saying what used it, and if checkpointing had another effect than was asked.
  StepOutcome step(int64_t step, const StepWork& work);

  /// Forward and backward of a step within its budget, for nothing: the milliseconds they take, and
  /// the bytes that they were planned to.
  std::pair<double, int64_t> rehearse(const StepWork& work);

  /// What a step says about itself, as metrics.jsonl has it.
  void describe(const StepOutcome& outcome, Json& record) const;

  const std::string& name() const { return name_; }
  Model& model() const { return model_; }
  Optimizer& optimizer() const { return *optimizer_; }
  MovingAverage* average() const { return average_.get(); }  ///< null: none
  const EffectCheck& effect() const { return effect_; }
  const MemoryMeter& meter() const { return meter_; }
  const StepBudget* budget() const { return budget_.get(); }  ///< null: none

 private:
  void update(int64_t step, const StepWork& work, double total_weight, StepOutcome& outcome);
  void plan_step(const StepWork& work, double total_weight);
  at::Tensor run_micro_batches(const StepWork& work, double total_weight, MetricSums& metrics);
  BatchLoss forward(size_t index, const StepWork& work, const StepContext& context);
  BatchLoss forward_backward(size_t index, const StepWork& work, const StepContext& context);
  void agree_on_finite(const at::Tensor& losses, int64_t step, const StepWork& work) const;
  void check_finite(const at::Tensor& losses, int64_t step, const StepWork& work) const;
  double clip_gradients() const;
  int64_t resident_bytes(const StepWork& work) const;
  std::string explain(const std::string& error, int64_t step, const StepWork& work);

  std::string name_;
  Model& model_;
  SpreadModel* spread_;  // null: the model is this process's alone
  const TrainerOptions& options_;
  const World& world_;
  int64_t total_steps_;
  ScheduleOptions schedule_;
  EffectCheck effect_;
  MemoryMeter meter_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<MovingAverage> average_;
  std::unique_ptr<StepBudget> budget_;  // null: none
  size_t micro_batch_ = 0;              // that is being worked on
};

}  // namespace reprise
