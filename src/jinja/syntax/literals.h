// Literals: numbers and string escapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::jinja {

struct NumberLiteral {
  size_t length = 0;
  bool is_float = false;
  int64_t integer = 0;
  double number = 0;
};

/// Reads the number at the start of `text`, which begins with a digit. After a dot (x.0.1) no
/// fraction is read. Throws Failure for an integer beyond 64 bits.
NumberLiteral read_number(std::string_view text, bool after_dot, int line);

/// The characters between the quotes, with Python's escapes resolved.
std::string unescape(std::string_view text, int line);

}  // namespace reprise::jinja
