// The reference that a policy is kept close to in dpo, kto and online training: a model of its own,
// the policy without its adapters, or log-probabilities computed before training (precompute.h).
#pragma once

#include <reprise/data/batch.h>
#include <reprise/export.h>
#include <reprise/loss/head.h>
#include <reprise/model/model.h>
#include <reprise/train/objective.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace reprise {

/// TRL's sync_ref_model: after every `steps` optimizer steps the reference becomes
/// alpha * policy + (1 - alpha) * reference.
struct ReferenceSync {
  double alpha = 0.6;   ///< above 0, at most 1
  int64_t steps = 512;  ///< at least 1
};

/// A frozen model that gives log-probabilities. Copies share the model.
class REPRISE_API Reference {
 public:
  /// A model of its own. It is frozen: eval mode, no gradients. With `sync` it follows the policy.
  explicit Reference(std::shared_ptr<Model> model, std::optional<ReferenceSync> sync = {});
  /// The policy with its adapters switched off; if training started from an existing adapter, with
  /// that one. Takes no extra memory. The policy must have LoRA adapters.
  static Reference without_adapters(std::shared_ptr<Model> policy);
  /// The policy with its current weights at every call. For precompute_reference() before training.
  static Reference current_policy(std::shared_ptr<Model> policy);

  /// Log-probabilities of `targets`, and what else is requested, without gradients, dropout or
  /// checkpointed regions.
  TokenValues logprobs(const TokenBatch& batch,
                       const Targets& targets,
                       const TokenRequests& requests = {}) const;

  /// Moves a model of its own to a device; does nothing if the reference is the policy.
  void move_to(const at::Device& device) const;

  /// Throws if the reference cannot follow this policy, naming the first tensor that differs: other
  /// shapes, or trained parameters that the reference lacks, such as adapters. The objectives call
  /// it before the first step, so that the error does not come at the first sync. Does nothing
  /// without `sync`.
  void check_sync(const Model& policy) const;
  /// Follows the policy if `step`, the number of optimizer steps done, is a multiple of
  /// ReferenceSync::steps. The objectives call it after every step.
  void sync(const Model& policy, int64_t step);

  /// The parameters, if they change during the run (`sync`); otherwise nothing. Always whole: if
  /// the model is sharded over processes, this is a collective.
  NamedTensors state() const;
  void load(const TensorFile& file);
  int64_t bytes() const;  ///< parameter bytes of a model of its own; 0 if it is the policy

 private:
  Reference(std::shared_ptr<Model> model, AdapterUse adapters);

  std::shared_ptr<Model> model_;
  AdapterUse adapters_;
  bool is_own_model_;
  std::optional<ReferenceSync> sync_;
};

/// An objective with a reference: dpo and kto.
class REPRISE_API ReferencedObjective : public TrainingObjective {
 public:
  /// The reference's log-probabilities for each example of a batch, (B, 2) float32: of the chosen
  /// and the rejected response (dpo), or of the completion and the mismatched one (kto).
  virtual at::Tensor reference_logps(const Batch& batch) const = 0;

  /// Uses precomputed log-probabilities from now on, as precompute_reference() returns them, and
  /// drops the reference. `evaluation` may be undefined if there is no evaluation.
  void use_precomputed(at::Tensor train, at::Tensor evaluation);

  /// The number of rows, since the losses are means over rows.
  double evaluation_weight(const Batch& batch) const override;
  void after_step(int64_t step) override;
  NamedTensors state() const override;
  void load(const TensorFile& file) override;
  int64_t frozen_bytes() const override;

 protected:
  explicit ReferencedObjective(std::optional<Reference> reference);
  /// The precomputed values of the batch's examples (by Batch::indices), or reference_logps().
  at::Tensor logps_of_reference(const Batch& batch, const StepContext& context) const;

  std::optional<Reference> reference_;

 private:
  at::Tensor train_logps_, evaluation_logps_;
  mutable bool is_reference_checked_ = false;
};

}  // namespace reprise
