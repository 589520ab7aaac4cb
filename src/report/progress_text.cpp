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

/// Whether numbers have a fixed width, as in lines that are seen one below the other.
enum class Numbers : uint8_t { Plain, Aligned };

std::string aligned(std::string text, size_t width, Numbers numbers) {
  const size_t missing = text.size() < width ? width - text.size() : 0;
  return numbers == Numbers::Aligned ? std::string(missing, ' ') + text : text;
}

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value) || std::abs(value) >= 1e6) {
    return human_number(value);
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

/// Four digits that mean something: "2.315", "0.6931", "12.35", "1.2e-05".
std::string figure_text(double value) {
  const double size = std::abs(value);
  if (size == 0 || !std::isfinite(value)) {
    return human_number(value);
  }
  if (size < 1e-3 || size >= 1e5) {
    return human_number(value, 2);
  }
  return fixed(value, size < 1 ? 4 : size < 10 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0);
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

std::string memory_text(const Progress& progress, Numbers numbers) {
  const auto bytes = [&](double value) { return aligned(human_bytes(value), 8, numbers); };
  std::string text = "memory ";
  if (progress.live_bytes) {
    text += bytes(*progress.live_bytes);
  }
  if (progress.peak_bytes) {
    text += (progress.live_bytes ? ", peak " : "peak ") + bytes(*progress.peak_bytes);
  }
  return text;
}

/// On a terminal, "? left" and "0 s left" keep the place of what is shown between them.
std::string left_text(const std::optional<double>& seconds, Numbers numbers) {
  const bool is_known = seconds.has_value();
  const bool is_over = is_known && *seconds < 0.5;
  if (numbers == Numbers::Plain && (!is_known || is_over)) {
    return "";
  }
  const std::string time = !is_known ? "?" : is_over ? "0 s" : human_seconds(std::round(*seconds));
  return aligned(time, 6, numbers) + " left";
}

std::vector<Part> parts_of(const Progress& progress, Numbers numbers) {
  constexpr size_t kFigure = 7, kRate = 8;
  std::vector<Part> parts = {{steps_text(progress), 0}};
  const auto add = [&](const std::optional<double>& value, int rank, const auto& text) {
    if (value) {
      parts.push_back({text(*value), rank});
    }
  };
  const auto figure = [&](double x) { return aligned(figure_text(x), kFigure, numbers); };
  const auto rate = [&](double x) { return aligned(human_number(x, 3), kRate, numbers); };
  add(progress.epoch, 8, [](double x) { return "epoch " + fixed(x, 2); });
  add(progress.loss, 1, [&](double x) { return "loss " + figure(x); });
  int rank = 3;
  for (const ProgressFigure& each : progress.figures) {
    parts.push_back({each.label + " " +
                         (each.decimals ? aligned(fixed(each.value, *each.decimals), 4, numbers)
                                        : figure(each.value)),
                     rank++});
  }
  add(progress.learning_rate, 7, [&](double x) { return "lr " + rate(x); });
  add(progress.grad_norm, 9, [&](double x) { return "grad norm " + rate(x); });
  add(progress.tokens_per_second, 5, [&](double x) {
    return aligned(human_count(x), 5, numbers) + " tokens/s";
  });
  if (progress.live_bytes || progress.peak_bytes) {
    parts.push_back({memory_text(progress, numbers), 6});
  }
  const std::string left = left_text(progress.seconds_left, numbers);
  if (!left.empty() && progress.total > 0) {
    parts.push_back({left, 2});
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

void fit(std::vector<Part>& parts, size_t columns, size_t reserved) {
  while (parts.size() > 1 && width_of(parts) + reserved > columns) {
    parts.erase(std::max_element(
        parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.rank < b.rank; }));
  }
}

size_t bar_width(size_t columns) {
  constexpr size_t kNarrow = 90;
  return columns <= kNarrow ? kLeastBar : std::min(kWidestBar, kLeastBar + (columns - kNarrow) / 2);
}

}  // namespace

std::string progress_line(const Progress& progress, size_t columns, BarStyle style) {
  std::vector<Part> parts = parts_of(progress, Numbers::Aligned);
  const bool has_bar = progress.total > 0;
  const size_t reserved = has_bar ? bar_width(columns) + kGap.size() : 0;
  fit(parts, columns, reserved);
  if (!has_bar || width_of(parts) + reserved > columns) {
    return joined(parts).substr(0, columns);
  }
  return bar(share_done(progress), bar_width(columns), style) + std::string(kGap) + joined(parts);
}

std::string progress_log_line(const Progress& progress) {
  std::vector<Part> parts = parts_of(progress, Numbers::Plain);
  parts.front().text = "step " + std::to_string(progress.step);
  if (progress.total > 0) {
    parts.front().text += "/" + std::to_string(progress.total);
  }
  return joined(parts);
}

std::string progress_log_line(const Progress& progress, size_t columns) {
  std::vector<Part> parts = parts_of(progress, Numbers::Aligned);
  if (progress.total > 0) {
    parts.front().text.insert(0, "step ");
  }
  fit(parts, columns, 0);
  return joined(parts).substr(0, columns);
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
