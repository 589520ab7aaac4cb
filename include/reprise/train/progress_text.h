// Where a run stands, as one line of text: for a terminal with a bar and never wider than it is,
// for a log in full.
#pragma once

#include <reprise/export.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace reprise {

/// What is not known is not shown.
struct Progress {
  int64_t step = 0;  ///< optimizer steps done
  int64_t total = 0;
  std::optional<double> epoch = {};
  std::optional<double> loss = {};
  std::optional<double> learning_rate = {};
  std::optional<double> grad_norm = {};
  std::optional<double> tokens_per_second = {};
  std::optional<double> seconds_left = {};
  std::optional<double> live_bytes = {};
  std::optional<double> peak_bytes = {};
};

enum class BarStyle : uint8_t { Unicode, Ascii };

/// At most `columns` wide, without a newline. The bar shrinks first; then parts are left out, the
/// least telling first. The step is always shown, cut if need be.
REPRISE_API std::string progress_line(const Progress& progress, size_t columns, BarStyle style);

/// All parts, no bar.
REPRISE_API std::string progress_log_line(const Progress& progress);

/// By the mean time of the steps done so far in this process; none before the first.
REPRISE_API std::optional<double> estimate_seconds_left(double elapsed_seconds,
                                                        int64_t steps_done,
                                                        int64_t steps_left);

}  // namespace reprise
