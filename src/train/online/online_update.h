// Optimizer steps on experience, of the policy and of its critic.
#pragma once

#include "train/loop/batch_plan.h"
#include "train/loop/learner.h"
#include "train/online/online_micro_batches.h"

#include <reprise/io/json.h>
#include <reprise/train/online.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace reprise {

class OnlineUpdate {
 public:
  OnlineUpdate(const OnlineJob& job,
               const OnlineOptions& options,
               int64_t total_steps,
               const World& world);

  /// Takes step number `step`, from 0, of the critic and then of the policy, and adds their metrics
  /// to `record`. Returns the policy's outcome; std::nullopt while only the critic learns.
  std::optional<StepOutcome> step(int64_t step, const UpdateBatch& batch, Json& record);

  Learner& policy() { return policy_; }
  Learner* critic() { return critic_.get(); }  ///< null: none

  /// Milliseconds that the latest step spent planning.
  double planning_ms() const { return planning_ms_; }

 private:
  StepOutcome step_policy(int64_t step, const UpdateBatch& batch, Json& record);
  /// Returns the time spent planning.
  double step_critic(int64_t step, const UpdateBatch& batch, Json& record);
  PretrainingBatches pretraining_batches(int64_t step);

  const OnlineJob& job_;
  const OnlineOptions& options_;
  const World& world_;
  TrainerOptions critic_options_;
  Learner policy_;
  std::unique_ptr<Learner> critic_;
  std::unique_ptr<TrainingObjective> pretraining_;  // null: none
  std::unique_ptr<BatchPlan> pretraining_plan_;
  double planning_ms_ = 0;
};

}  // namespace reprise
