// Offline training: one loop for all objectives (sft, rm, prm, dpo, kto, kd, or your own).
//
// train() takes the optimizer steps of a run. Around them it evaluates, writes metrics.jsonl and
// checkpoints, and calls a TrainingObserver. <reprise/train.h> shows a whole program.
#pragma once

#include <reprise/data/dataset.h>
#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/optim/optimizer.h>
#include <reprise/optim/schedule.h>
#include <reprise/train/checkpointing_effect.h>
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

/// Settings of a run. The names in parentheses are those of transformers' TrainingArguments.
struct TrainerOptions {
  /// Folder of checkpoints, metrics.jsonl and memory plans (output_dir). Created if needed; one
  /// that has checkpoints of another run is refused.
  std::filesystem::path output;

  /// Examples per micro-batch and process (per_device_train_batch_size).
  int64_t batch_size = 8;
  /// Micro-batches per optimizer step and process (gradient_accumulation_steps).
  int64_t accumulation = 1;
  double epochs = 3;              ///< passes over the data (num_train_epochs); may be a fraction
  int64_t max_steps = -1;         ///< optimizer steps; overrides epochs if positive
  double learning_rate = 2e-5;    ///< at the top of the schedule
  ScheduleOptions schedule = {};  ///< its warmup_steps are ignored; the next member is used
  double warmup_steps = 0;        ///< optimizer steps; below 1: a fraction of all steps
  OptimizerOptions optimizer = {};
  double max_grad_norm = 1.0;  ///< gradients are clipped to this 2-norm; 0: no clipping
  /// Decay of a moving average of the weights, saved in output/ema at the end; 0: none.
  double ema_decay = 0;
  bool shuffle = true;  ///< a new order in each epoch, determined by the seed
  uint64_t seed = 42;   ///< of the data order and of dropout
  bool dropout = true;  ///< false: the model is trained in eval mode
  /// Type that matrix products run in while parameters keep theirs (torch.autocast); unset: off.
  std::optional<at::ScalarType> autocast = {};

  /// Memory budget of a step. If it is set, all blocks of the model must be checkpointed with
  /// default options; the planner then decides what each block keeps.
  MemoryLimits memory = {};
  /// With a memory budget: time several batch sizes and use the fastest, with the accumulation that
  /// keeps batch_size * accumulation rows per step.
  bool auto_batch = false;
  CollateOptions collate = {};  ///< how examples become tensors; set its pad_id

  int64_t eval_batch_size = 8;  ///< examples per batch and process
  int64_t eval_steps = 0;  ///< evaluate every so many optimizer steps; 0: at the end of each epoch
  /// Save a checkpoint every so many optimizer steps and after the last; 0: never.
  int64_t save_steps = 500;
  /// Keep only the newest checkpoints; 0: all. The best one is always kept.
  int64_t save_total_limit = 0;
  /// Evaluation metric that decides which checkpoint is the best, such as "eval_loss"
  /// (metric_for_best_model). A new best is saved at once. Empty: no best checkpoint.
  std::string best_metric = {};
  bool greater_is_better = false;  ///< of best_metric
  /// Stop after so many evaluations without a new best; 0: never.
  int64_t early_stopping_patience = 0;

  /// Anything that identifies the run, saved in every checkpoint. checkpoint_configuration() reads
  /// it back, so that a program can refuse to resume with other settings.
  Json configuration = {};
};

/// What to train on what, and how to save it. Refers to `objective`; keep it alive during train().
struct TrainingJob {
  TrainingObjective& objective;
  std::shared_ptr<const Dataset> data;
  std::shared_ptr<const Dataset> eval_data = nullptr;  ///< null: no evaluation
  /// Writes the model or its adapter, as it is now, into a folder: save_model() or save_adapter().
  /// Called for every checkpoint, in all processes.
  std::function<void(const std::filesystem::path& folder)> save_model;
  /// A checkpoint folder to continue from, for example latest_checkpoint(output); empty: start from
  /// the beginning. Load the model as for a new run: its trained parameters are replaced.
  std::filesystem::path resume_from = {};
};

/// How far a run is.
struct RunProgress {
  int64_t step = 0;  ///< optimizer steps done
  int64_t total_steps = 0;
  double epoch = 0;
};

/// A batch size that TrainerOptions::auto_batch tried, on the longest rows.
struct BatchTrial {
  int64_t batch_size = 0;
  double tokens_per_second = 0;
  int64_t predicted_bytes = 0;  ///< of what the budget limits
};

/// Is called when something happens in a run. Override what you need; the defaults do nothing. All
/// calls come from the thread that called train(), in every process unless stated otherwise. An
/// exception ends the run.
class REPRISE_API TrainingObserver {
 public:
  virtual ~TrainingObserver();
  /// Before anything else, if TrainerOptions::auto_batch is set: what was tried and what was
  /// chosen.
  virtual void on_batch_size_chosen(const std::vector<BatchTrial>& trials,
                                    int64_t batch_size,
                                    int64_t accumulation);
  /// Within a memory budget, when finding the plan for micro-batches of a new shape takes longer
  /// than a second: once for that shape, maybe by a thread of the autograd engine that the caller
  /// waits for.
  virtual void on_planning(int64_t rows, int64_t length);
  /// Before the first step. progress.step is above 0 if the run was resumed.
  virtual void on_train_begin(const RunProgress& progress, const CheckpointedBlocks& checkpointing);
  /// After the first step, once: what checkpointing did in it, and the activation bytes of its
  /// largest micro-batch.
  virtual void on_checkpointing_checked(const CheckpointingEffect& effect,
                                        int64_t activation_bytes);
  /// After every optimizer step, with its line of metrics.jsonl.
  virtual void on_step_end(const RunProgress& progress, const Json& record);
  /// After every evaluation, with its line of metrics.jsonl.
  virtual void on_evaluate(const RunProgress& progress, const Json& record);
  /// After a checkpoint was saved. First process only.
  virtual void on_save(const std::filesystem::path& folder);
  /// Asked after every step. If any process returns true, the run saves a checkpoint and ends with
  /// TrainingEnd::Stopped. False by default.
  virtual bool should_stop() const;
};

enum class TrainingEnd : uint8_t {
  Done,          ///< all steps were taken
  Stopped,       ///< TrainingObserver::should_stop()
  EarlyStopped,  ///< TrainerOptions::early_stopping_patience
};

struct TrainingSummary {
  TrainingEnd end = TrainingEnd::Done;
  RunProgress progress;
  double train_loss = 0;                       ///< mean over the steps taken since the last resume
  std::filesystem::path best_checkpoint = {};  ///< empty without best_metric or evaluation
};

/// Trains the objective's model in place; it has the final weights afterwards. The final model is
/// not saved: call save_model() on it.
///
/// Equal options, data and seed give equal weights to the last bit, resumed or not, under every
/// memory policy, if the kernels are deterministic. Throws, and leaves earlier checkpoints as they
/// are, if the loss is not finite, if memory runs out, and if checkpointing does not do what was
/// requested. In a world of several processes all call it, and the model must be sharded over them
/// (<reprise/parallel/shard.h>).
REPRISE_API TrainingSummary train(const TrainingJob& job,
                                  const TrainerOptions& options,
                                  TrainingObserver& observer,
                                  const World& world = World::single());

/// The newest complete checkpoint in an output folder; empty if there is none.
REPRISE_API std::filesystem::path latest_checkpoint(const std::filesystem::path& output);

/// Replaces the trained parameters of a model by those of a checkpoint of its run, for example
/// TrainingSummary::best_checkpoint.
REPRISE_API void load_trained(const Model& model, const std::filesystem::path& checkpoint);

/// TrainerOptions::configuration as it was when a checkpoint was saved.
REPRISE_API Json checkpoint_configuration(const std::filesystem::path& checkpoint);

}  // namespace reprise
