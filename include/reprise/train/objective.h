// What the training loop needs from an objective (sft, dpo, …): the loss of a batch.
//
// make_sft(), make_dpo() and their siblings return ready objectives. To train on a loss of your
// own, derive from TrainingObjective; model() and loss() are enough:
//
//   class MyObjective final : public reprise::TrainingObjective {
//    public:
//     explicit MyObjective(std::shared_ptr<reprise::Model> model) : model_(std::move(model)) {}
//     reprise::Model& model() const override { return *model_; }
//     reprise::BatchLoss loss(const reprise::Batch& batch,
//                             const reprise::StepContext& context) override {
//       const auto logits = model_->forward({.input_ids = batch.main.input_ids,
//                                            .attention_mask = batch.main.attention_mask});
//       context.forward_done();
//       return {my_loss(logits, batch.main.labels) / context.total_weight};
//     }
//
//    private:
//     std::shared_ptr<reprise::Model> model_;
//   };
#pragma once

#include <reprise/data/batch.h>
#include <reprise/export.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/loss/metric.h>
#include <reprise/model/model.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace reprise {

class MemoryMeter;
class World;

struct BatchLoss {
  /// Scalar: this batch's share of the step's loss. The loop calls backward() on it. The parts of
  /// all micro-batches add up to the loss of the step.
  at::Tensor part;
  std::vector<Metric> metrics = {};  ///< logged under their names, averaged over the step
};

/// What loss() is told about the optimizer step or evaluation that the batch belongs to.
struct StepContext {
  /// Sum of TrainingObjective::weight() over all micro-batches of the step in all processes. Divide
  /// the loss by it.
  double total_weight = 1;
  MemoryMeter* meter = nullptr;  ///< the loop's; use forward_done(). Null: memory is not measured
  bool is_evaluation = false;    ///< the batch is evaluation data; gradients are off
  /// All processes call loss() at the same time, so it may call collectives of the World. If false,
  /// this process may be the only one in loss().
  bool allows_collectives = false;
  /// The result does not count. The batch is only computed because other processes, which have one
  /// batch more, need this one in their collectives.
  bool is_filler = false;

  /// To be called in loss() after the model's forward pass and before the head and the loss. It
  /// tells the memory metrics where activations end and logits begin. Optional.
  REPRISE_API void forward_done() const;
};

/// A loss, and the state that belongs to it. The loop calls all members from the thread that called
/// train(); only model() and loss() must be overridden.
class REPRISE_API TrainingObjective {
 public:
  virtual ~TrainingObjective();

  /// The model that is trained. Must return the same model every time.
  virtual Model& model() const = 0;

  /// The loss of a batch on the model's device, divided by context.total_weight. Called with
  /// gradients enabled in training and disabled in an evaluation.
  virtual BatchLoss loss(const Batch& batch, const StepContext& context) = 0;

  /// How much a micro-batch counts in its optimizer step. The default, 1, makes the loss a mean of
  /// micro-batch means. sft returns the number of trained tokens, so every token counts the same.
  virtual double weight(const Batch& batch) const;

  /// How much a batch counts in the mean loss of an evaluation; by default weight(). If the loss is
  /// a mean over rows, return the number of rows: the last batch is often smaller.
  virtual double evaluation_weight(const Batch& batch) const;

  /// Called before the first batch of an evaluation.
  virtual void begin_evaluation();
  /// Called after the last batch, in all processes: combine statistics over the world here.
  virtual void end_evaluation(const World& world);

  /// Called after each optimizer step, with the number of steps done so far.
  virtual void after_step(int64_t step);

  /// Tensors to save in checkpoints besides the model's, such as a reference that changes. load()
  /// restores them when a run is resumed. Empty by default.
  virtual NamedTensors state() const;
  virtual void load(const TensorFile& file);

  /// Bytes of frozen parameters besides the trained model's, such as a reference's. For the memory
  /// metrics.
  virtual int64_t frozen_bytes() const;

  /// Adds files to a folder that the model or its adapter was just saved in, or edits them: rm adds
  /// the mean and deviation of its rewards. Called in the first process only.
  virtual void save_extras(const std::filesystem::path& folder) const;
};

}  // namespace reprise
