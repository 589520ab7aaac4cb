// Python's str methods that test or convert characters.
#include "jinja/builtins/string_methods.h"

#include "jinja/arguments.h"
#include "jinja/builtins/format.h"
#include "jinja/builtins/methods.h"
#include "jinja/values/operators.h"
#include "jinja/values/unicode.h"

#include <algorithm>
#include <array>
#include <functional>

namespace reprise::jinja {
namespace {

using Transform = std::string (*)(std::string_view);

template <Transform transform>
Value transform_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  refuse_arguments("str method", arguments);
  runtime.charge(self.as_text().size(), 4);
  return runtime.text(transform(self.as_text()));
}

using Predicate = bool (*)(int32_t);

template <Predicate predicate>
Value all_are(Runtime&, const Value& self, const Arguments& arguments) {
  refuse_arguments("str method", arguments);
  const CodePoints code_points = decode(self.as_text());
  return Value(!code_points.empty() &&
               std::all_of(code_points.begin(), code_points.end(), predicate));
}

template <bool (*predicate)(std::string_view)>
Value text_is(Runtime&, const Value& self, const Arguments& arguments) {
  refuse_arguments("str method", arguments);
  return Value(predicate(self.as_text()));
}

bool is_title_text(std::string_view text) {
  bool has_case = false;
  bool inside_word = false;
  for (const int32_t c : decode(text)) {
    const bool starts = is_upper(c) || is_title(c);
    if (starts == inside_word && (starts || is_lower(c))) {
      return false;
    }
    inside_word = starts || is_lower(c);
    has_case = has_case || inside_word;
  }
  return has_case;
}

template <Side side>
Value stripped(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader("strip", arguments, {"/chars"});
  const auto characters = reader.optional_text();
  return runtime.text(
      std::string(strip(self.as_text(), side, characters ? &*characters : nullptr)));
}

template <Alignment alignment>
Value padded(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader("pad", arguments, {"/width", "/fillchar"});
  const int64_t width = reader.required_int();
  const std::string fill = reader.optional_text().value_or(" ");
  if (count_code_points(fill) != 1) {
    throw Failure("The fill character must be exactly one character long");
  }
  return runtime.text(pad(runtime, self.as_text(), width, alignment, fill));
}

Value zero_filled(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader("zfill", arguments, {"/width"});
  const int64_t width = reader.required_int();
  std::string result = pad(runtime, self.as_text(), width, Alignment::Right, "0");
  const size_t zeros = result.size() - self.as_text().size();
  const char sign = self.as_text().empty() ? '\0' : self.as_text()[0];
  if (zeros > 0 && (sign == '+' || sign == '-')) {
    result[zeros] = '0';
    result[0] = sign;
  }
  return runtime.text(std::move(result));
}

template <bool at_end>
Value without_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader("removeprefix", arguments, {"/affix"});
  const std::string affix = reader.required_text();
  std::string_view text = self.as_text();
  if (!at_end && text.starts_with(affix)) {
    text.remove_prefix(affix.size());
  } else if (at_end && text.ends_with(affix)) {
    text.remove_suffix(affix.size());
  }
  return runtime.text(std::string(text));
}

Value expand_tabs(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader("expandtabs", arguments, {"tabsize"});
  const int64_t width = reader.optional_int(8);
  std::string result;
  int64_t column = 0;
  const std::string& text = self.as_text();
  for (size_t position = 0; position < text.size();) {
    const int32_t c = next_code_point(text, position);
    if (c == '\t') {
      const int64_t spaces = width > 0 ? width - column % width : 0;
      runtime.charge(static_cast<size_t>(spaces));
      result.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
    } else {
      append_code_point(result, c);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return runtime.text(std::move(result));
}

Value format_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return runtime.text(format_braces(runtime, self.as_text(), arguments));
}

constexpr auto kStringMethods = std::to_array<Method>({
    {"capitalize", transform_method<capitalize>},
    {"casefold", transform_method<case_fold>},
    {"center", padded<Alignment::Center>},
    {"expandtabs", expand_tabs},
    {"format", format_method},
    {"isalnum", all_are<is_alnum>},
    {"isalpha", all_are<is_alpha>},
    {"isdecimal", all_are<is_decimal>},
    {"isdigit", all_are<is_digit>},
    {"islower", text_is<is_lower_text>},
    {"isspace", all_are<is_space>},
    {"istitle", text_is<is_title_text>},
    {"isupper", text_is<is_upper_text>},
    {"ljust", padded<Alignment::Left>},
    {"lower", transform_method<to_lower>},
    {"lstrip", stripped<Side::Left>},
    {"removeprefix", without_affix<false>},
    {"removesuffix", without_affix<true>},
    {"rjust", padded<Alignment::Right>},
    {"rstrip", stripped<Side::Right>},
    {"strip", stripped<Side::Both>},
    {"swapcase", transform_method<swap_case>},
    {"title", transform_method<title_case>},
    {"upper", transform_method<to_upper>},
    {"zfill", zero_filled},
});

}  // namespace

std::span<const Method> string_methods() {
  return kStringMethods;
}

bool is_upper_text(std::string_view text) {
  const CodePoints all = decode(text);
  return std::any_of(all.begin(), all.end(), is_upper) &&
         std::none_of(all.begin(), all.end(), [](int32_t c) { return is_lower(c) || is_title(c); });
}

bool is_lower_text(std::string_view text) {
  const CodePoints all = decode(text);
  return std::any_of(all.begin(), all.end(), is_lower) &&
         std::none_of(all.begin(), all.end(), [](int32_t c) { return is_upper(c) || is_title(c); });
}

std::string pad(Runtime& runtime,
                std::string_view text,
                int64_t width,
                Alignment alignment,
                std::string_view fill) {
  const auto length = static_cast<int64_t>(count_code_points(text));
  if (width <= length) {
    return std::string(text);
  }
  const auto missing = static_cast<size_t>(width - length);
  runtime.charge(missing, fill.size());
  // Like str.center in Python: the odd space goes to the left only if the width is odd.
  const size_t centered = missing / 2 + (missing & static_cast<size_t>(width) & 1U);
  const size_t left = alignment == Alignment::Left    ? 0
                      : alignment == Alignment::Right ? missing
                                                      : centered;
  std::string result;
  result.reserve(text.size() + missing * fill.size());
  for (size_t i = 0; i < left; ++i) {
    result += fill;
  }
  result += text;
  for (size_t i = left; i < missing; ++i) {
    result += fill;
  }
  return result;
}

}  // namespace reprise::jinja
