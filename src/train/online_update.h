// Optimizer steps on experience: of the policy, and of its critic.
#pragma once

#include "train/batch_plan.h"
#include "train/experience.h"
#include "train/learner.h"

#include <reprise/io/json.h>
#include <reprise/train/online.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

/// This process's micro-batches of one optimizer step, and what they are a part of.
struct UpdateRows {
  std::vector<ExperienceRows> micro_batches;
  int64_t step_micro_batches = 0;  ///< of all processes, as what follows
  int64_t sequences = 0;
  double tokens = 0;             ///< learned from
  int64_t text_tokens = 0;       ///< with prompts
  double generation_tokens = 0;  ///< of the whole generation batch, learned from
};

class OnlineUpdate {
 public:
  OnlineUpdate(const OnlineJob& job,
               const OnlineOptions& options,
               int64_t total_steps,
               const World& world);

  /// Step number `step`, from 0, of both; the critic goes first. Adds to the step's record.
  /// Returns what the policy's step did; nothing while only the critic learns.
  std::optional<StepOutcome> step(int64_t step, const UpdateRows& rows, Json& record);

  Learner& policy() { return policy_; }
  Learner* critic() { return critic_.get(); }  ///< null: none

  /// With --offload_optimizer: the optimizers' state goes to a device.
  void move_optimizers(const at::Device& device);

 private:
  StepWork work_of(const UpdateRows& rows, const std::string& role) const;
  StepOutcome step_policy(int64_t step, const UpdateRows& rows, Json& record);
  void step_critic(int64_t step, const UpdateRows& rows, Json& record);
  BatchLoss policy_part(const ExperienceRows& rows,
                        const PolicyStep& step,
                        const StepContext& context) const;
  PolicyStep totals_of(const UpdateRows& rows) const;

  struct PretrainingBatches {
    std::vector<Batch> batches;
    std::vector<bool> is_filler;
    double total_weight = 0;  // of all processes
  };
  PretrainingBatches pretraining_batches(int64_t step);

  const OnlineJob& job_;
  const OnlineOptions& options_;
  const World& world_;
  TrainerOptions critic_options_;
  Learner policy_;
  std::unique_ptr<Learner> critic_;
  std::unique_ptr<TrainingObjective> pretraining_;  // null: none
  std::unique_ptr<BatchPlan> pretraining_plan_;
};

}  // namespace reprise
