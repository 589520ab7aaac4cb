// The micro-batches of an optimizer step of online training: of the policy and of its critic.
#pragma once

#include "train/loop/micro_batches.h"
#include "train/online/experience.h"

#include <reprise/dist/world.h>
#include <reprise/train/online.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

/// This process's micro-batches of one optimizer step. The counts are those of all processes.
struct UpdateBatch {
  std::vector<ExperienceBatch> micro_batches;
  int64_t step_micro_batches = 0;
  int64_t sequences = 0;
  double tokens = 0;             ///< tokens learned from, in the step
  int64_t text_tokens = 0;       ///< tokens of prompts and completions, in the step
  double generation_tokens = 0;  ///< tokens learned from, in the whole generation batch
};

/// Micro-batches of a language-model loss that is added to the policy's (PPO-ptx).
struct PretrainingBatches {
  std::vector<Batch> batches;
  std::vector<bool> is_filler;
  double total_weight = 0;  ///< of all processes
};

/// What policy and critic have in common. Everything passed in must outlive the object.
class OnlineMicroBatches : public MicroBatches {
 public:
  size_t size() const override { return update_.micro_batches.size(); }
  BatchShape shape(size_t index) const override;
  int64_t frozen_bytes() const override;

 protected:
  OnlineMicroBatches(const OnlineJob& job, const OnlineOptions& options, const UpdateBatch& update)
      : job_(job), options_(options), update_(update) {}

  const OnlineJob& job_;
  const OnlineOptions& options_;
  const UpdateBatch& update_;
};

/// Micro-batches of experience, followed by those of the pretraining loss.
class PolicyMicroBatches final : public OnlineMicroBatches {
 public:
  /// `pretraining_objective` may be null if there are no pretraining batches.
  PolicyMicroBatches(const OnlineJob& job,
                     const OnlineOptions& options,
                     const UpdateBatch& update,
                     const PretrainingBatches& pretraining,
                     TrainingObjective* pretraining_objective,
                     const World& world);

  size_t size() const override;
  BatchLoss loss(size_t index, const StepContext& context) override;
  BatchShape shape(size_t index) const override;
  std::string describe_non_finite(size_t index) const override;
  int64_t frozen_bytes() const override;
  bool is_filler(size_t index) const override;

 private:
  bool is_pretraining(size_t index) const { return index >= update_.micro_batches.size(); }
  size_t pretraining_index(size_t index) const { return index - update_.micro_batches.size(); }
  BatchLoss policy_gradient_loss(const ExperienceBatch& batch, const StepContext& context) const;
  BatchLoss pretraining_loss(const Batch& batch, const StepContext& context) const;

  const PretrainingBatches& pretraining_;
  TrainingObjective* pretraining_objective_;
  PolicyStep totals_;
};

class CriticMicroBatches final : public OnlineMicroBatches {
 public:
  CriticMicroBatches(const OnlineJob& job, const OnlineOptions& options, const UpdateBatch& update)
      : OnlineMicroBatches(job, options, update) {}

  BatchLoss loss(size_t index, const StepContext& context) override;
  std::string describe_non_finite(size_t index) const override;
  int64_t frozen_bytes() const override;
};

}  // namespace reprise
