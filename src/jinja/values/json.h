// Conversion between template values and JSON: input variables and the `tojson` filter.
#pragma once

#include "jinja/runtime.h"

#include <reprise/io/json.h>

#include <optional>
#include <string>

namespace reprise::jinja {

/// Throws Failure for a string that is not UTF-8 and for an integer beyond 64 bits.
Value from_json(Runtime& runtime, const Json& json);

/// The arguments of Python's json.dumps.
struct JsonStyle {
  std::optional<std::string> indent = {};  ///< per level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool ascii_only = false;
  bool sort_keys = false;
};

Value to_json(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace reprise::jinja
