// What all runs do around their optimizer steps: resume, write metrics, tell the observer, evaluate
// and save when it is time, end early. What a step is, each kind of run says itself.
//
// All processes of a world run it and decide the same. The first alone writes files beside the
// checkpoints; where it cannot, all stop.
#pragma once

#include "train/snapshot.h"

#include <reprise/dist/world.h>
#include <reprise/train/metrics_file.h>
#include <reprise/train/trainer.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

namespace reprise {

class RunLoop {
 public:
  virtual ~RunLoop() = default;
  /// From the beginning, or from a checkpoint.
  TrainingSummary run(const std::filesystem::path& resume_from);

 protected:
  RunLoop(const TrainerOptions& options,
          TrainingObserver& observer,
          const World& world,
          int64_t total_steps);

  /// Takes the next step, counts it in state_, and returns its object of metrics.jsonl.
  virtual Json train_step() = 0;
  virtual bool has_evaluation() const = 0;
  /// "eval_..." figures.
  virtual Json evaluate() = 0;
  virtual double epoch_after(int64_t steps) const = 0;
  virtual bool ends_epoch(int64_t step) const = 0;
  virtual RunParts parts() = 0;
  /// Where the averaged weights go at the end, if there are any. All processes call it.
  virtual void save_average() = 0;

  /// A checkpoint of the step that was taken last. All processes call it.
  void save();
  /// Calls `save_model` while the averages are in the learner's model. All processes call it.
  void save_averaged(const Learner& learner, const std::function<void()>& save_model) const;

  /// To be called in train_step() with what the step did.
  void note_outcome(const StepOutcome& outcome, const Learner& learner);

  const TrainerOptions& options_;
  TrainingObserver& observer_;
  const World& world_;
  const int64_t total_;  // steps
  RunState state_;

 private:
  RunProgress progress() const { return {state_.step, total_, epoch_after(state_.step)}; }
  void begin(const std::filesystem::path& resume_from);
  TrainingEnd advance();
  bool should_stop() const;
  bool evaluates_now() const;
  bool saves_now() const;
  TrainingEnd evaluate_now();
  TrainingEnd compare_with_best(const Json& line);
  void save_plans(bool is_end);

  std::unique_ptr<MetricsFile> metrics_;
  int64_t steps_ = 0;  // of this process
  double loss_sum_ = 0;
  bool is_effect_told_ = false;
  size_t plans_saved_ = 0;
};

}  // namespace reprise
