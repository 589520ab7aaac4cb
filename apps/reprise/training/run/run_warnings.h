// Notices runs that cannot learn, while there is time to stop them. Each warning comes once and
// says what to do.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/io/json.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace reprise::app {

class RunWarnings {
 public:
  static constexpr int64_t kInARow = 10;  ///< steps or generations without a sign of learning

  /// `first_step`: steps that an earlier part of the run has done.
  explicit RunWarnings(const TrainingFlags& flags, int64_t first_step = 0);

  /// With the step's line of metrics.jsonl. Returns what is to be printed.
  std::vector<std::string> after_step(int64_t step, int64_t total, const Json& record);

 private:
  void watch_rewards(const Json& record);
  void watch_lengths(const Json& record);
  void watch_gradient(const Json& record);
  void watch_loss(int64_t step, int64_t total, const Json& record);
  void warn(const std::string& kind, const std::string& text);

  TrainingFlags flags_;
  bool is_whole_;  // the run began here, so that its first losses are known
  int64_t equal_rewards_ = 0, cut_off_ = 0, zero_gradients_ = 0;
  double reward_ = 0;
  std::vector<double> losses_;
  std::set<std::string> given_;
  std::vector<std::string> new_;
};

}  // namespace reprise::app
