// The training loop: one for all objectives.
#pragma once

#include <reprise/data/dataset.h>
#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/optim/optimizer.h>
#include <reprise/optim/schedule.h>
#include <reprise/train/effect.h>
#include <reprise/train/memory_budget.h>
#include <reprise/train/objective.h>

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

struct TrainerOptions {
  std::filesystem::path output;  ///< checkpoints, metrics and the final model
  int64_t batch_size = 8;        ///< examples of a micro-batch
  int64_t accumulation = 1;      ///< micro-batches of an optimizer step
  double epochs = 3;
  int64_t max_steps = -1;  ///< optimizer steps; -1: by epochs
  double learning_rate = 2e-5;
  ScheduleOptions schedule = {};  ///< its warmup_steps are replaced by the next line
  double warmup_steps = 0;        ///< below 1: a share of all steps
  OptimizerOptions optimizer = {};
  double max_grad_norm = 1.0;  ///< 0: gradients are not clipped
  double ema_decay = 0;  ///< of a moving average of the weights, saved at the end in ema; 0: none
  bool shuffle = true;
  uint64_t seed = 42;
  bool dropout = true;  ///< false: the model is trained in eval mode
  std::optional<at::ScalarType> autocast = {};
  /// Where it is set, all blocks of the model must be checkpointed, with the default options: plans
  /// decide what becomes of them.
  MemoryLimits memory = {};
  /// Within a memory budget: try which batch_size is fastest, instead of the one above, for the
  /// same rows a step.
  bool auto_batch = false;
  CollateOptions collate = {};

  int64_t eval_batch_size = 8;
  int64_t eval_steps = 0;        ///< evaluate every so many steps; 0: at the end of each epoch
  int64_t save_steps = 500;      ///< checkpoints every so many steps and after the last; 0: none
  int64_t save_total_limit = 0;  ///< keep so many checkpoints; 0: all. The best is always kept
  /// Evaluated metric by which a checkpoint is the best ("eval_loss"); empty: none is kept for it.
  std::string best_metric = {};
  bool greater_is_better = false;
  int64_t early_stopping_patience = 0;  ///< evaluations without a new best; 0: never stop early

  /// Goes into every checkpoint. A run resumes only from one that was made with the same.
  Json configuration = {};
};

/// One size of micro-batches, tried on the longest rows.
struct BatchTrial {
  int64_t batch_size = 0;
  double tokens_per_second = 0;
  int64_t predicted_bytes = 0;  ///< of what the budget is about
};

/// Where a run stands: what happens between steps is told to an observer.
struct RunProgress {
  int64_t step = 0;  ///< done
  int64_t total_steps = 0;
  double epoch = 0;
};

class REPRISE_API TrainingObserver {
 public:
  virtual ~TrainingObserver();
  /// Before anything else, with TrainerOptions::auto_batch: what was tried, and what was chosen.
  virtual void chose_batch(const std::vector<BatchTrial>& trials,
                           int64_t batch_size,
                           int64_t accumulation);
  /// Before the first step: how long the run is, where it starts, what checkpointing will do.
  virtual void begin(const RunProgress& progress, const EffectCheck& effect);
  /// After an optimizer step: its object of metrics.jsonl.
  virtual void step(const RunProgress& progress, const Json& record);
  /// After the first step, once.
  virtual void effect(const CheckpointingEffect& effect, int64_t activation_bytes);
  virtual void evaluated(const RunProgress& progress, const Json& record);
  virtual void saved(const std::filesystem::path& folder);
  /// Asked after every step: true ends training as if it were done, with a checkpoint.
  virtual bool should_stop() const;
};

/// What is trained, on what, and how it is written.
struct TrainingJob {
  TrainingObjective& objective;
  std::shared_ptr<const Dataset> data;
  std::shared_ptr<const Dataset> eval_data = nullptr;  ///< null: no evaluation
  /// Writes the model (or its adapter) as it is now into a folder.
  std::function<void(const std::filesystem::path& folder)> save_model;
  /// Checkpoint to go on from; empty: from the start. The model as it was loaded for the run: its
  /// trained parameters are replaced by the checkpoint's.
  std::filesystem::path resume_from = {};
};

enum class TrainingEnd : uint8_t { Done, Stopped, EarlyStopped };

struct TrainingSummary {
  TrainingEnd end = TrainingEnd::Done;
  RunProgress progress;
  double train_loss = 0;  ///< mean over the steps of this process
  std::filesystem::path best_checkpoint = {};
};

/// Runs it. Same options, data and seed give the same weights to the last bit, resumed or not,
/// under every memory policy, where the kernels are deterministic.
REPRISE_API TrainingSummary train(const TrainingJob& job,
                                  const TrainerOptions& options,
                                  TrainingObserver& observer,
                                  const World& world = World::single());

/// The newest complete checkpoint of an output folder; empty: there is none.
REPRISE_API std::filesystem::path latest_checkpoint(const std::filesystem::path& output);

/// Replaces the trained parameters of a model by those in a checkpoint of its run.
REPRISE_API void load_trained(const Model& model, const std::filesystem::path& checkpoint);

/// The configuration that a checkpoint was made with.
REPRISE_API Json checkpoint_configuration(const std::filesystem::path& checkpoint);

}  // namespace reprise
