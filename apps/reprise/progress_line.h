// Shows progress: one line per logged step, which stays, and on a terminal below it a live line
// that is redrawn. Other output goes through print(), so that it does not end up inside the live
// line.
#pragma once

#include <reprise/report/progress_text.h>

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::app {

class ProgressLine {
 public:
  static constexpr int kSilent = -1;  ///< a descriptor that discards output

  /// The caller owns `descriptor`.
  explicit ProgressLine(int descriptor = STDERR_FILENO);
  /// Leaves the last step on the screen; later output begins on a new line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Call it when something begins that may take long before the first step: "loading the model".
  /// Is shown until the next call of any function but print(), or written as a line if there is no
  /// terminal.
  void phase(std::string_view what);
  /// Call it after each step. Redraws the live line at most a few times per second; prints nothing
  /// if there is no terminal.
  void show(const Progress& progress);
  /// Call it after each logged step. Prints a line, and on a terminal redraws the live one.
  void log(const Progress& progress);
  /// Clears the live line, prints `line` with a newline, and draws the live line again.
  void print(std::string_view line);

 private:
  using Clock = std::chrono::steady_clock;

  Progress with_time_left(Progress progress);
  void draw();
  void write(std::string_view text) const;

  int descriptor_;
  bool is_terminal_;
  BarStyle style_;
  Progress latest_;
  std::string phase_;  // shown instead of the latest step; empty: the steps have begun
  int64_t logged_step_ = -1;
  bool is_drawn_ = false;
  Clock::time_point drawn_at_;
  Clock::time_point started_;
  std::optional<int64_t> first_step_;  // not 0 in a resumed run
};

}  // namespace reprise::app
