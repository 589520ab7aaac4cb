// The progress of a run as one line of text: with a bar that fits the terminal, or in full for a
// log.
#pragma once

#include <reprise/export.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

/// A figure of the objective: {"margin", 0.31}.
struct ProgressFigure {
  std::string label;
  double value = 0;
  std::optional<int> decimals = {};  ///< unset: four digits
};

/// Unset members are not shown.
struct Progress {
  int64_t step = 0;  ///< optimizer steps done
  int64_t total = 0;
  std::optional<double> epoch = {};
  std::optional<double> loss = {};
  std::vector<ProgressFigure> figures = {};  ///< the most important first
  std::optional<double> learning_rate = {};
  std::optional<double> grad_norm = {};
  std::optional<double> tokens_per_second = {};
  std::optional<double> seconds_left = {};
  std::optional<double> live_bytes = {};
  std::optional<double> peak_bytes = {};
};

enum class BarStyle : uint8_t { Unicode, Ascii };

/// At most `columns` wide, without a newline. The width of the bar depends on `columns` alone and
/// numbers are padded, so that nothing moves from step to step. If space is short, parts are left
/// out, the least important first. The step is always shown, truncated if necessary.
REPRISE_API std::string progress_line(const Progress& progress, size_t columns, BarStyle style);

/// All parts, without a bar.
REPRISE_API std::string progress_log_line(const Progress& progress);
/// Without a bar, as wide as progress_line(): lines that stay on a terminal are columns.
REPRISE_API std::string progress_log_line(const Progress& progress, size_t columns);

/// From the mean time of the steps that this process has done; std::nullopt before the first one.
REPRISE_API std::optional<double> estimate_seconds_left(double elapsed_seconds,
                                                        int64_t steps_done,
                                                        int64_t steps_left);

}  // namespace reprise
