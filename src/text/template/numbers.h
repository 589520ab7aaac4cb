// Numbers from text, as Python's int() and float() read them, and rounding as round() does.
#pragma once

#include "text/template/value.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace reprise::jinja {

/// None for what is no integer; throws Failure for one beyond 64 bits or an impossible base.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base);
std::optional<double> parse_float(std::string_view text);

/// Half goes to even, by the exact decimal value. `to_whole`: the result is an int.
Value round_number(const Value& number, int64_t digits, bool to_whole);

}  // namespace reprise::jinja
