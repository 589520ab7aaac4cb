// Short runs that stop, and go on from their newest checkpoint.
#pragma once

#include "support/temporary_folder.h"
#include "train/collecting_observer.h"
#include "train/training_case.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>

namespace reprise::testing {

constexpr int64_t kTotal = 12;  // three epochs of four steps

struct ResumeCase {
  std::string name;
  std::string objective;
  std::function<void(Json& run)> change;
  std::function<void(TrainingCase&)> prepare = [](TrainingCase&) {};
};

inline void PrintTo(const ResumeCase& one, std::ostream* out) {
  *out << one.name;
}

inline const ResumeCase kPlain = {"Plain", "sft", [](Json&) {}};

inline Json run_of(const std::string& objective) {
  Json run = usual_run(objective, kTotal);
  run["arguments"]["gradient_accumulation_steps"] = 2;
  return run;
}

/// Trains a fresh copy until `step`, from the newest checkpoint if there is one.
inline std::filesystem::path train_until(const ResumeCase& one,
                                         int64_t step,
                                         const TemporaryFolder& folder) {
  Json run = run_of(one.objective);
  one.change(run);
  TrainingCase opened(one.objective, run, folder);
  one.prepare(opened);
  opened.resume_from = latest_checkpoint(opened.options.output);
  CollectingObserver observer;
  observer.stop_after = step;
  const auto summary = opened.train(observer);
  EXPECT_EQ(summary.end, TrainingEnd::Stopped);
  EXPECT_EQ(summary.progress.step, step);
  return opened.options.output;
}

}  // namespace reprise::testing
