// The frame around the optimizer steps of any run: resume, write metrics, call the observer,
// evaluate and save when due, stop early. Subclasses define what a step is.
//
// All processes of a world run it and take the same decisions. Only the first process writes files
// besides the checkpoints; if it fails, all processes stop.
#pragma once

#include "train/loop/run_checkpoint.h"

#include <reprise/dist/world.h>
#include <reprise/report/metrics_file.h>
#include <reprise/train/trainer.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

namespace reprise {

class RunLoop : protected CheckpointedRun {
 public:
  /// Runs all steps, from the start or from a checkpoint.
  TrainingSummary run(const std::filesystem::path& resume_from);

 protected:
  RunLoop(const TrainerOptions& options,
          TrainingObserver& observer,
          const World& world,
          int64_t total_steps);

  /// Called once, before the first step. Throws if the run cannot be done.
  virtual void prepare() {}
  /// Takes the next optimizer step, counts it in state_, and returns its record for metrics.jsonl.
  virtual Json train_step() = 0;
  virtual bool has_evaluation() const = 0;
  /// Returns metrics named "eval_...".
  virtual Json evaluate() = 0;
  virtual double epoch_after(int64_t steps) const = 0;
  virtual bool ends_epoch(int64_t step) const = 0;
  /// Writes the models while the first learner's has its averaged weights. All processes call it.
  virtual void save_averaged_models(const std::filesystem::path& folder) = 0;

  /// Saves a checkpoint of the latest step. All processes call it.
  void save();

  /// Opens a log in the output folder, as it was when the checkpoint was saved. Call it in the
  /// first process, once the run has begun.
  MetricsFile& open_log(const std::string& name);

  /// To be called in train_step() with the result of the step.
  void note_outcome(const StepOutcome& outcome, const Learner& learner);

  const TrainerOptions& options_;
  TrainingObserver& observer_;
  const World& world_;
  const int64_t total_;  // optimizer steps of the whole run
  RunState state_;

 private:
  RunProgress progress() const { return {state_.step, total_, epoch_after(state_.step)}; }
  void begin(const std::filesystem::path& resume_from);
  TrainingEnd advance();
  bool should_stop() const;
  bool is_evaluation_due() const;
  bool is_save_due() const;
  TrainingEnd evaluate_now();
  TrainingEnd compare_with_best(const Json& record);
  void save_average();
  void save_plans(bool is_end);

  bool continues_ = false;                                    // resumes in the same folder
  std::map<std::string, std::unique_ptr<MetricsFile>> logs_;  // in the first process only
  MetricsFile* metrics_ = nullptr;                            // one of them
  int64_t steps_ = 0;                                         // taken since this process started
  double loss_sum_ = 0;                                       // over these steps
  bool is_effect_reported_ = false;
  size_t plans_saved_ = 0;
};

}  // namespace reprise
