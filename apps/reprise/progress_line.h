// Progress as a user sees it. On a terminal one live line that is redrawn; in a file or pipe one
// line for each logged step. All that is printed meanwhile goes through print(), so that it does
// not land in the middle of the live line.
#pragma once

#include <reprise/train/progress_text.h>

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise::app {

class ProgressLine {
 public:
  static constexpr int kSilent = -1;  ///< a descriptor for nobody to look at

  /// `descriptor` stays the caller's.
  explicit ProgressLine(int descriptor = STDERR_FILENO);
  /// What was last shown stays on the screen, and what comes next begins a new line.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// After each step. Redraws the live line, a few times a second at most; prints nothing
  /// elsewhere.
  void show(const Progress& progress);
  /// After each step that is logged. Redraws at once; elsewhere prints a line.
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
  bool is_drawn_ = false;
  Clock::time_point drawn_at_;
  Clock::time_point started_;
  std::optional<int64_t> first_step_;  // a run that goes on does not begin at 0
};

}  // namespace reprise::app
