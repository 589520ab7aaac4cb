// Values as text, like Python: str() for {{ x }}, repr() inside containers.
#pragma once

#include "jinja/runtime.h"

#include <string>
#include <string_view>

namespace reprise::jinja {

/// str(): the value itself if it is a text.
Value to_text(Runtime& runtime, const Value& value);
void write_text(Runtime& runtime, TextBuilder& out, const Value& value);
void write_repr(Runtime& runtime, TextBuilder& out, const Value& value);

/// The shortest digits that parse back to the same number, in Python's format (1e+16, 0.1).
std::string float_repr(double number);
/// repr() of a name for a message. A long one is cut off.
std::string quote(std::string_view text);

}  // namespace reprise::jinja
