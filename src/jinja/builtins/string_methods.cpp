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

using Transform = void (*)(TextBuilder&, std::string_view);

template <Transform transform>
Value transform_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  refuse_arguments("str method", arguments);
  TextBuilder result(runtime);
  transform(result, self.as_text(runtime));
  return runtime.text(std::move(result));
}

using Predicate = bool (*)(int32_t);

template <Predicate predicate>
Value all_are(Runtime& runtime, const Value& self, const Arguments& arguments) {
  refuse_arguments("str method", arguments);
  const std::string_view text = self.as_text(runtime);
  bool all = !text.empty();
  for (size_t position = 0; all && position < text.size();) {
    all = predicate(next_code_point(text, position));
  }
  return Value(all);
}

template <bool (*predicate)(std::string_view)>
Value text_is(Runtime& runtime, const Value& self, const Arguments& arguments) {
  refuse_arguments("str method", arguments);
  return Value(predicate(self.as_text(runtime)));
}

bool is_title_text(std::string_view text) {
  bool has_case = false;
  bool inside_word = false;
  for (size_t position = 0; position < text.size();) {
    const int32_t c = next_code_point(text, position);
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
  ArgumentReader reader(runtime, "strip", arguments, {"/chars"});
  const auto characters = reader.optional_text();
  const std::string_view text = self.as_text(runtime);
  return runtime.text(characters ? strip(runtime, text, side, *characters) : strip(text, side));
}

template <Alignment alignment>
Value padded(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader(runtime, "pad", arguments, {"/width", "/fillchar"});
  const int64_t width = reader.required_int();
  const std::string_view fill = reader.optional_text().value_or(" ");
  if (count_code_points(fill) != 1) {
    throw Failure("The fill character must be exactly one character long");
  }
  TextBuilder result(runtime);
  add_padded(result, self.as_text(runtime), width, alignment, fill);
  return runtime.text(std::move(result));
}

Value zero_filled(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader(runtime, "zfill", arguments, {"/width"});
  const int64_t width = reader.required_int();
  const std::string_view text = self.as_text(runtime);
  const size_t sign = text.starts_with('+') || text.starts_with('-') ? 1 : 0;
  TextBuilder result(runtime);
  result.add(text.substr(0, sign));
  add_padded(result, text.substr(sign), width - static_cast<int64_t>(sign), Alignment::Right, "0");
  return runtime.text(std::move(result));
}

template <bool at_end>
Value without_affix(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader(runtime, "removeprefix", arguments, {"/affix"});
  const std::string_view affix = reader.required_text();
  std::string_view text = self.as_text(runtime);
  if (!at_end && text.starts_with(affix)) {
    text.remove_prefix(affix.size());
  } else if (at_end && text.ends_with(affix)) {
    text.remove_suffix(affix.size());
  }
  return runtime.text(text);
}

Value expand_tabs(Runtime& runtime, const Value& self, const Arguments& arguments) {
  ArgumentReader reader(runtime, "expandtabs", arguments, {"tabsize"});
  const int64_t width = reader.optional_int(8);
  TextBuilder result(runtime);
  int64_t column = 0;
  const std::string_view text = self.as_text(runtime);
  for (size_t position = 0; position < text.size();) {
    const int32_t c = next_code_point(text, position);
    if (c == '\t') {
      const int64_t spaces = width > 0 ? width - column % width : 0;
      result.add_repeated(" ", static_cast<size_t>(spaces));
      column += spaces;
    } else {
      result.add_code_point(c);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return runtime.text(std::move(result));
}

Value format_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  return runtime.text(format_braces(runtime, self.as_text(runtime), arguments));
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
  bool has_upper = false;
  for (size_t position = 0; position < text.size();) {
    const int32_t c = next_code_point(text, position);
    if (is_lower(c) || is_title(c)) {
      return false;
    }
    has_upper = has_upper || is_upper(c);
  }
  return has_upper;
}

bool is_lower_text(std::string_view text) {
  bool has_lower = false;
  for (size_t position = 0; position < text.size();) {
    const int32_t c = next_code_point(text, position);
    if (is_upper(c) || is_title(c)) {
      return false;
    }
    has_lower = has_lower || is_lower(c);
  }
  return has_lower;
}

void add_padded(TextBuilder& out,
                std::string_view text,
                int64_t width,
                Alignment alignment,
                std::string_view fill) {
  const auto length = static_cast<int64_t>(count_code_points(text));
  const auto missing = static_cast<size_t>(std::max<int64_t>(width, length) - length);
  // Like str.center in Python: the odd space goes to the left only if the width is odd.
  const size_t centered = missing / 2 + (missing & static_cast<size_t>(width) & 1U);
  const size_t left = alignment == Alignment::Left    ? 0
                      : alignment == Alignment::Right ? missing
                                                      : centered;
  out.add_repeated(fill, left);
  out.add(text);
  out.add_repeated(fill, missing - left);
}

}  // namespace reprise::jinja
