// Axes with round numbers on them.
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::report {

enum class Unit : uint8_t { Number, Bytes, Milliseconds, TokensPerSecond, Share };

/// A value as a reader wants it: "2.315", "1.2 GiB", "38 ms", "12.3k tokens/s", "42.0 %".
std::string with_unit(double value, Unit unit);

struct REPRISE_API Axis {
  double low = 0;
  double high = 1;
  bool is_log = false;
  std::vector<double> ticks;
  std::vector<std::string> labels;  ///< one for each tick, all with as many decimals

  /// 0 at the low end, 1 at the high end.
  double place(double value) const;
};

enum class AxisStart : uint8_t { AtZero, AtLowest };

/// Covers low..high, both finite, in steps that are round in the unit (powers of two for bytes).
REPRISE_API Axis value_axis(double low, double high, Unit unit, AxisStart start);

/// Powers of ten; for 0 < low.
REPRISE_API Axis log_axis(double low, double high);

/// Ends exactly at low and high; ticks between are round in the unit, of plain numbers whole.
REPRISE_API Axis step_axis(double low, double high, Unit unit = Unit::Number);

}  // namespace reprise::report
