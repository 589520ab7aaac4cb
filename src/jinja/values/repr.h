// Values as text, like Python: str() for {{ x }}, repr() inside containers.
#pragma once

#include "jinja/runtime.h"

#include <string>
#include <string_view>

namespace reprise::jinja {

std::string to_text(Runtime& runtime, const Value& value);
std::string to_repr(Runtime& runtime, const Value& value);

/// The shortest digits that parse back to the same number, in Python's format (1e+16, 0.1).
std::string float_repr(double number);
std::string quote(std::string_view text);  ///< repr() of a string

}  // namespace reprise::jinja
