// Axes with ticks at round numbers.
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::report {

enum class Unit : uint8_t { Number, Bytes, Milliseconds, TokensPerSecond, Share };

/// A value in readable form: "2.315", "1.2 GiB", "38 ms", "12.3k tokens/s", "42.0 %".
std::string with_unit(double value, Unit unit);

struct REPRISE_API Axis {
  double low = 0;
  double high = 1;
  bool is_log = false;
  std::vector<double> ticks;
  std::vector<std::string> labels;  ///< one per tick, all with the same number of decimals

  /// The position of a value: 0 at the low end, 1 at the high end.
  double position(double value) const;
};

enum class AxisStart : uint8_t { AtZero, AtLowest };

/// Covers low to high, both finite, with ticks that are round in the unit (powers of two for
/// bytes).
REPRISE_API Axis value_axis(double low, double high, Unit unit, AxisStart start);

/// Ticks at powers of ten. Requires 0 < low.
REPRISE_API Axis log_axis(double low, double high);

/// Ends exactly at low and high. Ticks between are round in the unit; plain numbers are integers.
REPRISE_API Axis step_axis(double low, double high, Unit unit = Unit::Number);

}  // namespace reprise::report
