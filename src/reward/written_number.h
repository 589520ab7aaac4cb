// Parses numbers as people and models write them: 1,234.50, $5, -3/4, 12%, 1e3.
//
// Decimals are compared digit by digit, so different numbers are never equal, however long.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::reward {

/// digits * 10^exponent, without leading and trailing zeros. The digits of zero are empty.
struct Decimal {
  std::string digits;
  int64_t exponent = 0;

  bool operator==(const Decimal&) const = default;
};

struct WrittenNumber {
  bool is_negative = false;
  Decimal value;
  std::optional<Decimal> divisor =
      {};  ///< of a fraction; if it is zero, the number equals no other
  bool is_percent = false;
};

/// The last number in a text. Digits inside a word (x2, H2O) do not count, and a minus between two
/// numbers (3-4) is not a sign.
std::optional<WrittenNumber> last_number(std::string_view text);

/// The number, if the text consists of nothing else.
std::optional<WrittenNumber> whole_number(std::string_view text);

/// Whether the values are equal. If only one has a percent sign, it may mean a hundredth or a unit
/// that the other omits: 50% equals both 0.5 and 50.
bool have_same_value(const WrittenNumber& one, const WrittenNumber& other);

}  // namespace reprise::reward
