// Ticks are multiples of a round step: 1, 2 or 5 times a power of ten, or a power of two for bytes.
#include "report/charts/axis.h"

#include <reprise/report/units.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace reprise::report {
namespace {

constexpr int kAboutTicks = 5;

double round_step(double range, Unit unit) {
  const double rough = range / kAboutTicks;
  if (unit == Unit::Bytes) {
    return std::exp2(std::ceil(std::log2(std::max(rough, 1.0))));
  }
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double digit = rough / power;
  return power * (digit <= 1.5 ? 1 : digit <= 3 ? 2 : digit <= 7 ? 5 : 10);
}

std::string decimal(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

/// The decimals needed to distinguish multiples of `step`.
int decimals_for(double step) {
  return std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 8);
}

std::string bytes_label(double value, double step) {
  constexpr std::array<const char*, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  double size = 1;
  while (unit + 1 < kUnits.size() && value >= size * 1024) {
    size *= 1024;
    ++unit;
  }
  const int decimals = step >= size ? 0 : std::min(2, decimals_for(step / size));
  return value == 0 ? "0" : decimal(value / size, decimals) + " " + kUnits[unit];
}

struct Scale {
  double size;
  const char* suffix;
};

/// Uses thousands or more if a label would have too many digits.
Scale scale_of(double largest) {
  for (const Scale scale : {Scale{1e12, "T"}, Scale{1e9, "G"}, Scale{1e6, "M"}, Scale{1e3, "k"}}) {
    if (largest >= 10 * scale.size) {
      return scale;
    }
  }
  return {1, ""};
}

std::string number_label(double value, double step, double largest) {
  if (value == 0) {
    return "0";
  }
  if (largest < 1e-3 || largest >= 1e16) {
    return human_number(value, 3);
  }
  const Scale scale = scale_of(largest);
  return decimal(value / scale.size, decimals_for(step / scale.size)) + scale.suffix;
}

std::string label(double value, double step, double largest, Unit unit) {
  switch (unit) {
    case Unit::Bytes:
      return bytes_label(value, step);
    case Unit::Milliseconds:
      return value == 0       ? "0"
             : largest < 1000 ? decimal(value, decimals_for(step)) + " ms"
                              : human_seconds(value / 1000);
    case Unit::Share:
      return decimal(value * 100, decimals_for(step * 100)) + " %";
    case Unit::TokensPerSecond:
    case Unit::Number:
      break;
  }
  return number_label(value, step, largest);
}

void add_ticks(Axis& axis, double step, Unit unit) {
  const double largest = std::max(std::abs(axis.low), std::abs(axis.high));
  const auto first = static_cast<int64_t>(std::ceil(axis.low / step - 1e-9));
  const auto last = static_cast<int64_t>(std::floor(axis.high / step + 1e-9));
  for (int64_t i = first; i <= last; ++i) {
    const double tick = static_cast<double>(i) * step;
    axis.ticks.push_back(tick);
    axis.labels.push_back(label(tick, step, largest, unit));
  }
}

/// Adds room on both sides of a constant, or of values that differ only in the last bits.
void widen_if_flat(double& low, double& high) {
  const double size = std::max({std::abs(low), std::abs(high), 1e-12});
  if (high - low < 1e-9 * size) {
    low -= 0.1 * size;
    high += 0.1 * size;
  }
}

}  // namespace

std::string with_unit(double value, Unit unit) {
  switch (unit) {
    case Unit::Bytes:
      return human_bytes(value);
    case Unit::Milliseconds:
      return human_seconds(value / 1000);
    case Unit::TokensPerSecond:
      return human_count(value) + " tokens/s";
    case Unit::Share:
      return decimal(value * 100, 1) + " %";
    case Unit::Number:
      break;
  }
  const bool is_whole = std::abs(value) < 1e15 && value == std::round(value);
  return human_number(value, is_whole ? 15 : 5);
}

double Axis::position(double value) const {
  const double share = is_log ? (std::log(value) - std::log(low)) / (std::log(high) - std::log(low))
                              : (value - low) / (high - low);
  return std::clamp(share, 0.0, 1.0);
}

Axis value_axis(double low, double high, Unit unit, AxisStart start) {
  if (start == AxisStart::AtZero) {
    low = std::min(low, 0.0);
    high = std::max(high, 0.0);
  }
  const bool is_at_zero = start == AxisStart::AtZero && low == 0;
  if (high == low) {
    high = low == 0 ? 1 : high;
  }
  widen_if_flat(low, high);
  const double step = round_step(high - low, unit);
  Axis axis;
  axis.low = is_at_zero ? 0 : std::floor(low / step + 1e-9) * step;
  axis.high = std::max(std::ceil(high / step - 1e-9) * step, axis.low + step);
  add_ticks(axis, step, unit);
  return axis;
}

Axis log_axis(double low, double high) {
  Axis axis;
  axis.is_log = true;
  const auto first = static_cast<int>(std::floor(std::log10(low)));
  const auto last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(high))));
  const int every = 1 + (last - first) / 8;
  axis.low = std::pow(10, first);
  axis.high = std::pow(10, last);
  for (int power = first; power <= last; power += every) {
    axis.ticks.push_back(std::pow(10, power));
    axis.labels.push_back(human_number(axis.ticks.back()));
  }
  return axis;
}

Axis step_axis(double low, double high, Unit unit) {
  Axis axis;
  axis.low = low;
  axis.high = high > low ? high : low + 1;
  const double step = round_step(axis.high - axis.low, unit);
  add_ticks(axis, unit == Unit::Number ? std::max(1.0, step) : step, unit);
  return axis;
}

}  // namespace reprise::report
