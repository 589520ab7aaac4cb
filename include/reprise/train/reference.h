// The reference that a policy is held near: another model, the policy without its adapters, or
// numbers that were computed before training.
#pragma once

#include <reprise/data/batch.h>
#include <reprise/data/dataset.h>
#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/loss/head.h>
#include <reprise/model/model.h>
#include <reprise/train/objective.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace reprise {

/// How a reference follows the policy: every `steps` optimizer steps it becomes
/// alpha * policy + (1 - alpha) * reference.
struct ReferenceSync {
  double alpha = 0.6;
  int64_t steps = 512;
};

class REPRISE_API Reference {
 public:
  /// A model of its own, frozen from now on.
  explicit Reference(std::shared_ptr<Model> model, std::optional<ReferenceSync> sync = {});
  /// The policy itself: with the adapter that training began with, or without any.
  static Reference without_adapters(std::shared_ptr<Model> policy);

  /// The policy as it is whenever it is asked: before training, to precompute with.
  static Reference as_it_is(std::shared_ptr<Model> policy);

  /// Log-probabilities of `targets`, without gradients, dropout or checkpointed regions.
  TokenValues logprobs(const TokenBatch& batch,
                       const Targets& targets,
                       const TokenRequests& requests = {}) const;

  /// Moves the weights of a model of its own; a policy's stay where they are.
  void move_to(const at::Device& device) const;

  /// Throws, naming the first tensor that differs, if the reference is to follow this policy and
  /// is of another shape; also if the policy trains what the reference does not have, such as
  /// adapters. To be called before training, not after the many steps until it first follows.
  void check_follows(const Model& policy) const;
  /// To be called after an optimizer step of the policy.
  void follow(const Model& policy, int64_t step);
  /// Parameters that change, so that they are saved with the run; none unless it follows. Whole,
  /// also of a model that is spread over processes: then it is a collective.
  NamedTensors state() const;
  void load(const SafetensorsFile& file);
  int64_t bytes() const;  ///< of a model of its own

 private:
  Reference(std::shared_ptr<Model> model, AdapterUse adapters);

  std::shared_ptr<Model> model_;
  AdapterUse adapters_;
  bool is_own_model_;
  std::optional<ReferenceSync> sync_;
};

/// An objective with a reference: dpo, kto.
class REPRISE_API ReferencedObjective : public TrainingObjective {
 public:
  /// What is needed of the reference for each example of a batch, (B, 2) float32: log-probabilities
  /// of chosen and rejected, or of the completion and the mismatched one.
  virtual at::Tensor reference_logps(const Batch& batch) const = 0;

  /// Rows: the losses are means over them.
  double evaluation_weight(const Batch& batch) const override;

  /// Takes these, (examples, 2), by Batch::indices, instead of the reference, which is let go.
  void use_precomputed(at::Tensor train, at::Tensor evaluation);

  void after_step(int64_t step) override;
  NamedTensors state() const override;
  void load(const SafetensorsFile& file) override;
  int64_t frozen_bytes() const override;

 protected:
  explicit ReferencedObjective(std::optional<Reference> reference);
  /// From what was precomputed, or computed now.
  at::Tensor logps_of_reference(const Batch& batch, const StepContext& context) const;

  std::optional<Reference> reference_;

 private:
  at::Tensor train_logps_, evaluation_logps_;
  mutable bool is_reference_checked_ = false;
};

struct PrecomputeOptions {
  CollateOptions collate;
  int64_t batch_size = 8;
  std::optional<at::ScalarType> autocast = {};  ///< as in training
  /// File to keep them in, found again by a run with the same key; empty: none is written.
  std::filesystem::path cache = {};
  std::string key = {};
  /// Mismatched rows are of what all processes have at a time, as in training; otherwise of a
  /// batch, as in an evaluation.
  bool in_rounds = false;
  /// Called in the first process, with the rows that all have done.
  std::function<void(int64_t done, int64_t total)> progress = {};
  /// The setting that batch_size is from, for the message if memory runs out.
  std::string batch_flag = "--precompute_ref_batch_size";
};

/// What an earlier run left in the cache; undefined: nothing that is whole and has this key. With
/// it the reference need not be loaded at all. It is found in all processes or in none.
REPRISE_API at::Tensor find_precomputed(const Dataset& data,
                                        const PrecomputeOptions& options,
                                        const World& world = World::single());

/// reference_logps of a whole data set, in the order of the data set: from the cache, or computed
/// and written there. Each process computes its share of the batches, and all get the whole.
/// Throws for memory that runs out, saying which setting would help.
REPRISE_API at::Tensor precompute_reference(const ReferencedObjective& objective,
                                            const Dataset& data,
                                            const PrecomputeOptions& options,
                                            const World& world = World::single());

}  // namespace reprise
