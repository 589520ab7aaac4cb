// A model, its optimizer, and one optimizer step on it, whatever the loss is and wherever the
// micro-batches come from.
//
// A step runs forward and backward of every micro-batch, clips the gradients, updates the weights,
// and then checks that checkpointing did what was requested.
#pragma once

#include "plan/measure/gradient_hooks.h"
#include "train/budget/host_limit.h"
#include "train/budget/memory_meter.h"
#include "train/budget/placement.h"
#include "train/budget/step_budget.h"
#include "train/loop/effect_check.h"
#include "train/loop/metric_sums.h"
#include "train/loop/micro_batches.h"

#include <reprise/dist/world.h>
#include <reprise/optim/optimizer.h>
#include <reprise/optim/schedule.h>
#include <reprise/parallel/shard.h>
#include <reprise/train/trainer.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

struct StepOutcome {
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  CheckpointingEffect effect;
  std::optional<BudgetOutcome> budget = {};  ///< only in runs with a memory budget
  MetricSums metrics;
};

/// What a trial step measured.
struct StepTrial {
  double milliseconds = 0;
  int64_t predicted_bytes = 0;
};

class Learner {
 public:
  /// `name` is the folder of its files in checkpoints; empty for the run's main model.
  Learner(std::string name,
          Model& model,
          const TrainerOptions& options,
          int64_t total_steps,
          const World& world);

  /// Takes optimizer step number `step`, from 0. Throws if the loss or a gradient is not finite, if
  /// memory runs out (with a breakdown of its use), and if checkpointing did not do what was
  /// requested.
  StepOutcome step(int64_t step, MicroBatches& micro_batches);

  /// Plans all of these micro-batches, if there is a memory budget. Throws if it is too small.
  /// `repeats`: steps have several.
  void plan_ahead(MicroBatches& micro_batches, bool repeats);

  /// `report` hears of batch shapes whose plan takes longer than a second.
  void report_planning(StepBudget::Report report);

  /// Runs forward and backward within the memory budget without updating any weight.
  StepTrial trial_step(MicroBatches& micro_batches);

  /// The step so far with the largest peak.
  const MemoryClasses& most() const { return most_; }

  /// Adds the metrics of a step to its line of metrics.jsonl. A collective.
  void write_metrics(const StepOutcome& outcome, Json& record) const;

  const std::string& name() const { return name_; }
  Model& model() const { return model_; }
  Optimizer& optimizer() const { return *optimizer_; }
  MovingAverage* average() const { return average_.get(); }  ///< null: none
  const EffectCheck& effect() const { return effect_; }
  const MemoryMeter& meter() const { return meter_; }
  const StepBudget* budget() const { return budget_.get(); }  ///< null: none

 private:
  void update(int64_t step, MicroBatches& micro_batches, double total_weight, StepOutcome& outcome);
  at::Tensor run_micro_batches(MicroBatches& micro_batches,
                               double total_weight,
                               MetricSums& metrics);
  BatchLoss forward(size_t index, MicroBatches& micro_batches, const StepContext& context);
  BatchLoss forward_backward(size_t index, MicroBatches& micro_batches, const StepContext& context);
  BatchLoss measured(size_t index, MicroBatches& micro_batches, const StepContext& context);
  double clip_gradients() const;
  int64_t optimizer_bytes() const;  ///< on the device
  Json largest_memory() const;
  int64_t resident_bytes(const MicroBatches& micro_batches) const;

  // In learner_planning.cpp, with the public functions that plan.
  std::vector<StepBudget::MicroBatch> to_plan(MicroBatches& micro_batches, double total_weight);
  void plan_step(MicroBatches& micro_batches, double total_weight);
  OptimizerOptions first_placement();
  bool place_next();
  template <class Plan>
  void plan_with_room(const Plan& plan);

  // In learner_errors.cpp.
  [[noreturn]] void report_non_finite(const at::Tensor& losses,
                                      int64_t step,
                                      const MicroBatches& micro_batches) const;
  void check_finite(const at::Tensor& losses,
                    int64_t step,
                    const MicroBatches& micro_batches) const;
  std::string explain_memory(const std::exception& error,
                             int64_t step,
                             const MicroBatches& micro_batches);

  std::string name_;
  Model& model_;
  ShardedModel* sharded_;  // null: the model is not sharded over processes
  const TrainerOptions& options_;
  const World& world_;
  int64_t total_steps_;
  ScheduleOptions schedule_;
  EffectCheck effect_;
  MemoryMeter meter_;
  HostLimit host_limit_;
  std::vector<Placement> places_;  // to be tried if the budget is too small; the first is in use
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<MovingAverage> average_;
  std::unique_ptr<StepBudget> budget_;  // null: none
  std::vector<at::Tensor> trained_;
  size_t micro_batch_ = 0;    // the index that is being processed
  int64_t moved_before_ = 0;  // bytes that the optimizer had moved when the step began
  int64_t plain_bytes_ = 0;   // that forward would keep without regions; most of the step so far
  MemoryClasses most_;
};

}  // namespace reprise
