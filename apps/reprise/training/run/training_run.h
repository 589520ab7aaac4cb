// What every training command does before and after training: output folder, observer and report.
// Nothing is written or deleted before begin(), but an existing output folder is locked at once.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags/flags.h"
#include "reprise/training/run/run_observer.h"
#include "reprise/training/run/run_world.h"

#include <reprise/io/folder_lock.h>
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
  /// Throws for a folder that contains another run or cannot be written to, for inputs that cannot
  /// be read, and for flags without effect on this machine.
  /// `configuration`: resolved_configuration(flags). Only rank 0 accesses the folder and prints.
  TrainingRun(const TrainingFlags& flags, Json configuration, const RunWorld& world);

  ProgressLine& line() { return line_; }
  /// The checkpoint to resume from; empty: start from the beginning.
  const std::filesystem::path& resume_from() const { return resume_from_; }

  /// The configuration, and the settings that were changed when the run was resumed, as "changes".
  /// It is for checkpoints; only in rank 0 it has the changes.
  Json recorded_configuration() const;

  /// Prepares the folder. Call it when all inputs have been checked. Throws if the resumed run had
  /// other data, or if a process does not see the folder.
  TrainingObserver& begin(const Model& model, const std::string& data_key);

  /// Adds facts about the run, by name, to its report.
  void record(const Json& facts) { facts_.update(facts); }

  /// Whether to save the model of the best checkpoint.
  bool takes_best(const TrainingSummary& summary) const;

  /// Writes the report and prints how the run ended and where the model is.
  void finish(const TrainingSummary& summary, const Model& model);

 private:
  /// In rank 0: takes the lock of the folder, for as long as the run lives.
  void lock_output();
  std::string configuration_text() const;
  Json report_configuration(const Model& model) const;
  Json report_summary(const TrainingSummary& summary) const;
  void print_end(const TrainingSummary& summary);

  const TrainingFlags& flags_;
  const RunWorld& world_;
  Json configuration_;
  Json facts_ = Json::object();
  Json changes_ = Json::array();  // see changes_of_run()
  std::chrono::steady_clock::time_point start_;
  ProgressLine line_;
  std::filesystem::path output_;
  std::filesystem::path resume_from_;
  std::string attention_;                       // the kernel that runs
  std::string products_;                        // who multiplies float32 on the CPU
  std::unique_ptr<FolderLock> lock_;            // in rank 0, from when there is a folder
  std::unique_ptr<RunObserver> observer_;       // null: not rank 0
  std::unique_ptr<TrainingObserver> follower_;  // null: rank 0
};

}  // namespace reprise::app
