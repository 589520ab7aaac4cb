// Numbers as people and models write them: 1,234.50, $5, -3/4, 12%, 1e3.
//
// Decimals are compared digit by digit, so that no two different ones are ever equal, however long.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::detail {

/// digits * 10^exponent; digits begin and end with another than 0, those of zero are empty.
struct Decimal {
  std::string digits;
  int64_t exponent = 0;

  bool operator==(const Decimal&) const = default;
};

struct WrittenNumber {
  bool is_negative = false;
  Decimal value;
  std::optional<Decimal> divisor = {};  ///< of a fraction; by zero, it equals nothing
  bool is_percent = false;
};

/// The last number in a text. A digit inside of a word (x2, H2O) begins none; a minus between two
/// numbers (3-4) is no sign.
std::optional<WrittenNumber> last_number(std::string_view text);

/// The number that a text is, if it is nothing else.
std::optional<WrittenNumber> whole_number(std::string_view text);

/// Whether both have one value. If only one of them has a percent sign, it may stand for a
/// hundredth or for a unit that the other left out: 50% is 0.5 and 50.
bool have_same_value(const WrittenNumber& one, const WrittenNumber& other);

}  // namespace reprise::detail
