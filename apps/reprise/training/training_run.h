// What every training command does before and after it trains: its output folder, its observer, its
// report. Nothing is written, or removed, before begin().
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags.h"
#include "reprise/training/run_observer.h"
#include "reprise/training/run_world.h"

#include <reprise/io/json.h>
#include <reprise/model/model.h>
#include <reprise/train/trainer.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

namespace reprise::app {

class TrainingRun {
 public:
  /// Throws for a folder that holds another run, and for flags without effect on this machine.
  /// `configuration` is the resolved one, which is saved and compared on resume. Of several
  /// processes the first looks at the folder, writes to it, and prints.
  TrainingRun(const TrainingFlags& flags, Json configuration, const RunWorld& world);

  ProgressLine& line() { return line_; }
  /// The checkpoint to go on from; empty: from the start.
  const std::filesystem::path& resume_from() const { return resume_from_; }

  /// When all that can be wrong with the input has been looked at: makes the folder ready. Throws
  /// if the run to go on with had other data, or if some process does not see the folder.
  TrainingObserver& begin(const Model& model, const std::string& data_key);

  /// Whether the model to save is that of the best checkpoint, which is still there.
  bool takes_best(const TrainingSummary& summary) const;

  /// Writes the report and says how it ended and where the model is.
  void finish(const TrainingSummary& summary, const Model& model);

 private:
  Json report_configuration(const Model& model) const;
  Json report_summary(const TrainingSummary& summary) const;
  void print_end(const TrainingSummary& summary);

  const TrainingFlags& flags_;
  const RunWorld& world_;
  Json configuration_;
  std::chrono::steady_clock::time_point start_;
  ProgressLine line_;
  std::filesystem::path output_;
  std::filesystem::path resume_from_;
  std::string attention_;                       // that serves the model
  std::unique_ptr<RunObserver> observer_;       // null: not the first process
  std::unique_ptr<TrainingObserver> follower_;  // null: the first process
};

}  // namespace reprise::app
