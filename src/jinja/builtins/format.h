// Python's two ways of formatting: "%s" % x and "{}".format(x).
#pragma once

#include "jinja/runtime.h"

#include <string>
#include <string_view>

namespace reprise::jinja {

/// `values`: a tuple of values, a dict for %(name)s, or a single value.
TextBuilder format_percent(Runtime& runtime, std::string_view format, const Value& values);
TextBuilder format_braces(Runtime& runtime, std::string_view format, const Arguments& arguments);

/// A format specification such as >10 or .2f.
struct FormatSpec {
  std::string fill = " ";
  char align = '\0';  ///< < > ^ =
  char sign = '-';
  bool alternate = false;
  char grouping = '\0';  ///< , or _
  int64_t width = 0;
  int64_t precision = -1;
  char type = '\0';
};

/// Reads digits at `position` and moves it past them. The value saturates far above any sensible
/// width.
int64_t read_format_digits(std::string_view text, size_t& position);
/// Adds the value as the specification says.
void format_value(Runtime& runtime, TextBuilder& out, const Value& value, const FormatSpec& spec);

}  // namespace reprise::jinja
