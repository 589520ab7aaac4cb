// The unit is chosen after rounding: what would read "60.0 s" or "1024.0 KiB" uses the next unit.
#include <reprise/report/units.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string_view>

namespace reprise {
namespace {

template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), format, values...);
  return {text.data(), static_cast<size_t>(length)};
}

std::string not_finite(double value) {
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

/// Three digits, or four just below the next unit.
std::string in_largest_unit(double value, double base, std::span<const std::string_view> units) {
  size_t unit = 0;
  while (std::abs(value) >= base - 0.5 && unit + 1 < units.size()) {
    value /= base;
    ++unit;
  }
  const double size = std::abs(value);
  if (size >= base) {  // beyond the last unit
    return human_number(value) + std::string(units[unit]);
  }
  const int decimals = unit == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return formatted("%.*f", decimals, value) + std::string(units[unit]);
}

std::string two_units(int64_t whole, int64_t part, char unit, char part_unit) {
  return formatted("%lld%c%02lld%c",
                   static_cast<long long>(whole),
                   unit,
                   static_cast<long long>(part),
                   part_unit);
}

}  // namespace

std::string human_bytes(double bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
  return std::isfinite(bytes) ? in_largest_unit(bytes, 1024, kUnits) : not_finite(bytes);
}

std::string human_count(double count) {
  constexpr std::array<std::string_view, 5> kUnits = {"", "k", "M", "G", "T"};
  return std::isfinite(count) ? in_largest_unit(count, 1000, kUnits) : not_finite(count);
}

std::string human_seconds(double seconds) {
  constexpr int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  constexpr double kLongest = 1e12;  // keeps the integers below in range
  if (!std::isfinite(seconds)) {
    return not_finite(seconds);
  }
  if (seconds < 0 || seconds > kLongest) {
    return human_number(seconds) + " s";
  }
  if (seconds < 0.9995) {
    return formatted(seconds < 0.00995 ? "%.1f ms" : "%.0f ms", seconds * 1000);
  }
  if (seconds < 59.95) {
    return formatted("%.1f s", seconds);
  }
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < kHour) {
    return two_units(whole / kMinute, whole % kMinute, 'm', 's');
  }
  if (whole < kDay) {
    return two_units(whole / kHour, whole % kHour / kMinute, 'h', 'm');
  }
  return two_units(whole / kDay, whole % kDay / kHour, 'd', 'h');
}

std::string human_number(double value, int digits) {
  return std::isfinite(value) ? formatted("%.*g", digits, value) : not_finite(value);
}

}  // namespace reprise
