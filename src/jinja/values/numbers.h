// Parses numbers like Python's int() and float(), and rounds like round().
#pragma once

#include "jinja/values/value.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise::jinja {

/// std::nullopt if `text` is not an integer. Throws Failure for one beyond 64 bits or an invalid
/// base.
std::optional<int64_t> parse_integer(Budget& budget, std::string_view text, int64_t base);
std::optional<double> parse_float(Budget& budget, std::string_view text);

/// Rounds half to even by the exact decimal value. `to_whole`: the result is an int.
Value round_number(const Value& number, int64_t digits, bool to_whole);

}  // namespace reprise::jinja
