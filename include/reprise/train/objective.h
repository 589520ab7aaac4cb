// What one objective (sft, dpo, ...) is to the training loop: a loss of a batch, and little more.
#pragma once

#include <reprise/data/batch.h>
#include <reprise/export.h>
#include <reprise/io/safetensors.h>
#include <reprise/loss/figure.h>
#include <reprise/model/model.h>
#include <reprise/model/without_checkpointing.h>
#include <reprise/train/memory_meter.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

class World;

struct BatchLoss {
  /// The batch's part of the step's loss: what backward() is called on. The parts of a step add up
  /// to its loss.
  at::Tensor part;
  std::vector<Figure> metrics;
};

/// Of one optimizer step, or of one evaluation.
struct StepContext {
  double total_weight = 1;  ///< sum of weight() over the micro-batches of the step, all processes
  MemoryMeter* meter = nullptr;  ///< told when the model's forward is over; null: nobody measures
  bool is_evaluation = false;    ///< the batch is of the evaluation data
  /// All processes compute a batch of theirs at the same time, so that a loss may ask for sums over
  /// them. Otherwise this process may be the only one that computes.
  bool is_joint = false;
  /// It counts nothing: it is computed because other processes compute theirs.
  bool is_filler = false;
};

class REPRISE_API TrainingObjective {
 public:
  virtual ~TrainingObjective();

  /// What a micro-batch counts in its step. 1: the loss is the mean of micro-batch means. For sft
  /// it is the number of trained tokens: every token of the step counts the same.
  virtual double weight(const Batch& batch) const;

  /// What a batch counts in the mean of an evaluation; by default as in training. An objective
  /// whose loss is a mean over rows counts rows: the last batch of a data set is often short.
  virtual double evaluation_weight(const Batch& batch) const;

  /// The loss of a batch, divided by context.total_weight. Called with gradients for training and
  /// without for evaluation.
  virtual BatchLoss loss(const Batch& batch, const StepContext& context) = 0;

  /// The model that is trained.
  virtual Model& model() const = 0;

  /// Before the batches of an evaluation, and after them: statistics become those of all
  /// processes.
  virtual void begin_evaluation();
  virtual void end_evaluation(const World& world);

  /// After the optimizer step number `step`, from 1.
  virtual void after_step(int64_t step);

  /// State beyond the model: a reference that follows, statistics. Saved and loaded with it.
  virtual NamedTensors state() const;
  virtual void load(const SafetensorsFile& file);

  /// Bytes of parameters beyond the trained model's: a reference, a teacher.
  virtual int64_t frozen_bytes() const;

  /// Adds to a folder that a model or an adapter was saved in: a reward model's mean and deviation.
  virtual void complete(const std::filesystem::path& folder) const;
};

}  // namespace reprise
