// The line is a list of parts in a fixed order. Their rank decides what is left out if the terminal
// is narrow. Everything except the bar is ASCII, so bytes are columns.
#include <reprise/report/progress_text.h>

#include <reprise/report/units.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

namespace reprise {
namespace {

constexpr std::string_view kGap = "  ";
constexpr size_t kLeastBar = 8, kWidestBar = 30;

struct Part {
  std::string text;
  int rank;  ///< the highest is left out first; 0 is never left out
};

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value) || std::abs(value) >= 1e6) {
    return human_number(value);
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

double share_done(const Progress& progress) {
  if (progress.total <= 0) {
    return 0;
  }
  return std::clamp(
      static_cast<double>(progress.step) / static_cast<double>(progress.total), 0.0, 1.0);
}

/// Padded to its final width, so that the rest of the line does not move.
std::string steps_text(const Progress& progress) {
  const std::string total = std::to_string(progress.total);
  std::string step = std::to_string(progress.step);
  if (progress.total <= 0) {
    return "step " + step;
  }
  step.insert(0, total.size() - std::min(total.size(), step.size()), ' ');
  return step + "/" + total;
}

std::string memory_text(const Progress& progress) {
  std::string text = "memory ";
  if (progress.live_bytes) {
    text += human_bytes(*progress.live_bytes);
  }
  if (progress.peak_bytes) {
    text += (progress.live_bytes ? ", peak " : "peak ") + human_bytes(*progress.peak_bytes);
  }
  return text;
}

std::vector<Part> parts_of(const Progress& progress) {
  std::vector<Part> parts = {{steps_text(progress), 0}};
  const auto add = [&](const std::optional<double>& value, int rank, const auto& text) {
    if (value) {
      parts.push_back({text(*value), rank});
    }
  };
  add(progress.epoch, 6, [](double x) { return "epoch " + fixed(x, 2); });
  add(progress.loss, 1, [](double x) { return "loss " + fixed(x, 4); });
  add(progress.learning_rate, 5, [](double x) { return "lr " + human_number(x, 3); });
  add(progress.grad_norm, 7, [](double x) { return "grad norm " + human_number(x, 3); });
  add(progress.tokens_per_second, 3, [](double x) { return human_count(x) + " tokens/s"; });
  if (progress.live_bytes || progress.peak_bytes) {
    parts.push_back({memory_text(progress), 4});
  }
  if (progress.seconds_left.value_or(0) >= 0.5) {
    add(progress.seconds_left, 2, [](double x) { return human_seconds(std::round(x)) + " left"; });
  }
  return parts;
}

size_t width_of(const std::vector<Part>& parts) {
  size_t width = kGap.size() * (parts.size() - 1);
  for (const Part& part : parts) {
    width += part.text.size();
  }
  return width;
}

std::string joined(const std::vector<Part>& parts) {
  std::string line = parts.front().text;
  for (size_t i = 1; i < parts.size(); ++i) {
    line += std::string(kGap) + parts[i].text;
  }
  return line;
}

std::string repeated(std::string_view text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

/// Exactly `columns` wide. The Unicode bar has a resolution of an eighth of a cell.
std::string bar(double share, size_t columns, BarStyle style) {
  const size_t cells = columns - 2;
  if (style == BarStyle::Ascii) {
    const auto full = static_cast<size_t>(share * static_cast<double>(cells));
    return "[" + repeated("#", full) + repeated(".", cells - full) + "]";
  }
  constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<size_t>(share * static_cast<double>(cells) * 8);
  const size_t full = eighths / 8, rest = eighths % 8;
  return "▕" + repeated("█", full) + std::string(kEighths[rest]) +
         repeated(" ", cells - full - (rest == 0 ? 0 : 1)) + "▏";
}

}  // namespace

std::string progress_line(const Progress& progress, size_t columns, BarStyle style) {
  std::vector<Part> parts = parts_of(progress);
  const bool has_bar = progress.total > 0;
  const size_t reserved = has_bar ? kLeastBar + kGap.size() : 0;
  while (parts.size() > 1 && width_of(parts) + reserved > columns) {
    parts.erase(std::max_element(
        parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.rank < b.rank; }));
  }
  const size_t width = width_of(parts);
  if (!has_bar || width + reserved > columns) {
    return joined(parts).substr(0, columns);
  }
  const size_t bar_columns = std::min(kWidestBar, columns - width - kGap.size());
  return bar(share_done(progress), bar_columns, style) + std::string(kGap) + joined(parts);
}

std::string progress_log_line(const Progress& progress) {
  std::vector<Part> parts = parts_of(progress);
  parts.front().text = "step " + std::to_string(progress.step);
  if (progress.total > 0) {
    parts.front().text += "/" + std::to_string(progress.total);
  }
  return joined(parts);
}

std::optional<double> estimate_seconds_left(double elapsed_seconds,
                                            int64_t steps_done,
                                            int64_t steps_left) {
  if (steps_done <= 0) {
    return std::nullopt;
  }
  return elapsed_seconds / static_cast<double>(steps_done) *
         static_cast<double>(std::max<int64_t>(0, steps_left));
}

}  // namespace reprise
