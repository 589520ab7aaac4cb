// What every training command does before and after it trains: its output folder, its observer, its
// report. Nothing is written, or removed, before begin().
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags.h"
#include "reprise/training/run_observer.h"

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
  /// `configuration` is the resolved one, which is saved and compared on resume.
  TrainingRun(const TrainingFlags& flags, Json configuration);

  ProgressLine& line() { return line_; }
  /// The checkpoint to go on from; empty: from the start.
  const std::filesystem::path& resume_from() const { return resume_from_; }

  /// When all that can be wrong with the input has been looked at: makes the folder ready. Throws
  /// if the run to go on with had other data.
  RunObserver& begin(const Model& model, const std::string& data_key);

  /// Writes the report and says how it ended and where the model is.
  void finish(const TrainingSummary& summary, const Model& model);

 private:
  Json report_configuration(const Model& model) const;
  Json report_summary(const TrainingSummary& summary) const;
  void print_end(const TrainingSummary& summary);

  const TrainingFlags& flags_;
  Json configuration_;
  std::chrono::steady_clock::time_point start_;
  ProgressLine line_;
  std::filesystem::path output_;
  std::filesystem::path resume_from_;
  std::string attention_;  // that serves the model
  std::unique_ptr<RunObserver> observer_;
};

}  // namespace reprise::app
