#include "checkpoint/bytes_text.h"

#include <array>
#include <cstddef>
#include <cstdio>

namespace reprise::detail {

std::string bytes_text(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  // From 1000 on, three digits would be written with an exponent.
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g %s", value, kUnits.at(unit));
  return text.data();
}

}  // namespace reprise::detail
