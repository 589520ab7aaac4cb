// Formats one value: digits, sign, grouping and padding.
#include "jinja/builtins/format.h"
#include "jinja/builtins/string_methods.h"
#include "jinja/values/repr.h"
#include "jinja/values/unicode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace reprise::jinja {
namespace {

constexpr int64_t kMaxPrecision = 1000;  // more than any double needs

std::string in_base(uint64_t number, unsigned base, bool upper) {
  const char* digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string result;
  do {
    result += digits[number % base];
    number /= base;
  } while (number != 0);
  std::reverse(result.begin(), result.end());
  return result;
}

// Inserts a separator between every `size` digits of the integer part.
std::string grouped(const std::string& digits, char separator, size_t size) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string result;
  for (size_t i = 0; i < whole; ++i) {
    if (i != 0 && (whole - i) % size == 0) {
      result += separator;
    }
    result += digits[i];
  }
  return result + digits.substr(whole);
}

std::string print_double(const char* format, int64_t precision, double number) {
  std::array<char, 1500> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, static_cast<int>(precision), number);
  return buffer.data();
}

std::string float_digits(double number, const FormatSpec& spec) {
  const bool is_upper_type = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  if (!std::isfinite(number)) {
    return std::isnan(number) ? (is_upper_type ? "NAN" : "nan") : (is_upper_type ? "INF" : "inf");
  }
  const int64_t precision = spec.precision < 0 ? 6 : spec.precision;
  switch (spec.type) {
    case 'e':
      return print_double("%.*e", precision, number);
    case 'E':
      return print_double("%.*E", precision, number);
    case 'f':
    case 'F':
      return print_double("%.*f", precision, number);
    case '%':
      return print_double("%.*f", precision, number * 100) + "%";
    case 'g':
      return print_double(spec.alternate ? "%#.*g" : "%.*g", precision, number);
    case 'G':
      return print_double(spec.alternate ? "%#.*G" : "%.*G", precision, number);
    default:
      break;
  }
  if (spec.precision < 0) {
    return float_repr(number);
  }
  std::string digits = print_double("%.*g", precision, number);
  // Without a type, Python keeps a digit after the point.
  if (digits.find_first_of(".e") == std::string::npos) {
    const bool fits = static_cast<int64_t>(digits.size()) < precision;
    digits =
        fits ? digits + ".0" : print_double("%.*e", std::max<int64_t>(precision - 1, 0), number);
  }
  return digits;
}

std::string integer_digits(int64_t number, const FormatSpec& spec) {
  const uint64_t magnitude =
      number < 0 ? uint64_t{0} - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  switch (spec.type) {
    case 'b':
      return in_base(magnitude, 2, false);
    case 'o':
      return in_base(magnitude, 8, false);
    case 'x':
      return in_base(magnitude, 16, false);
    case 'X':
      return in_base(magnitude, 16, true);
    default:
      return in_base(magnitude, 10, false);
  }
}

std::string base_prefix(const FormatSpec& spec) {
  const bool has_one =
      spec.alternate && std::string_view("boxX").find(spec.type) != std::string_view::npos;
  return has_one ? std::string("0") + spec.type : "";
}

void add_aligned(TextBuilder& out, std::string_view text, const FormatSpec& spec, char otherwise) {
  const char align = spec.align == '\0' ? otherwise : spec.align;
  const auto length = static_cast<int64_t>(count_code_points(text));
  const auto missing = static_cast<size_t>(std::max(spec.width, length) - length);
  // Unlike str.center, an odd fill character always goes to the right.
  const size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  out.add_repeated(spec.fill, left);
  out.add(text);
  out.add_repeated(spec.fill, missing - left);
}

void format_number(TextBuilder& out, const Value& value, const FormatSpec& spec) {
  static constexpr std::string_view kFloatTypes = "eEfFgG%";
  const bool as_float = value.is_float() || kFloatTypes.find(spec.type) != std::string_view::npos;
  const bool is_negative = as_float ? std::signbit(value.as_float()) : value.as_int() < 0;
  std::string digits = as_float ? float_digits(std::abs(value.as_float()), spec)
                                : integer_digits(value.as_int(), spec);
  if (spec.grouping != '\0') {
    const bool is_decimal = as_float || spec.type == 'd' || spec.type == '\0' || spec.type == 'n';
    digits = grouped(digits, spec.grouping, is_decimal ? 3 : 4);
  }
  std::string head = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  head += as_float ? "" : base_prefix(spec);
  if (spec.align == '=') {
    const auto room = spec.width - static_cast<int64_t>(head.size());
    out.add(head);
    return add_padded(out, digits, room, Alignment::Right, spec.fill);
  }
  add_aligned(out, head + digits, spec, '>');
}

}  // namespace

int64_t read_format_digits(std::string_view text, size_t& position) {
  int64_t result = 0;
  for (; position < text.size() && text[position] >= '0' && text[position] <= '9'; ++position) {
    result = std::min<int64_t>(result * 10 + (text[position] - '0'), INT32_MAX);
  }
  return result;
}

void format_value(Runtime& runtime, TextBuilder& out, const Value& value, const FormatSpec& spec) {
  if (spec.precision > kMaxPrecision) {
    throw Failure("a format asks for more than " + std::to_string(kMaxPrecision) + " digits");
  }
  static constexpr std::string_view kNumberTypes = "bcdeEfFgGnoxX%";
  const bool wants_number = kNumberTypes.find(spec.type) != std::string_view::npos;
  if (value.is_number() && (wants_number || spec.type == '\0')) {
    if (spec.type == 'c') {
      FormatSpec plain = spec;
      plain.type = 's';
      std::string character;
      if (value.is_float()) {
        throw Failure("Unknown format code 'c' for object of type 'float'");
      }
      const int64_t code = value.is_bool() ? static_cast<int64_t>(value.as_bool()) : value.as_int();
      if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
        throw Failure("%c arg not in range(0x110000)");
      }
      append_code_point(character, static_cast<int32_t>(code));
      return add_aligned(out, character, plain, '<');
    }
    const bool is_integer_type =
        std::string_view("bdoxXn").find(spec.type) != std::string_view::npos;
    if (value.is_float() && is_integer_type) {
      throw Failure(std::string("Unknown format code '") + spec.type +
                    "' for object of type 'float'");
    }
    if (value.is_bool() && spec.type == '\0') {
      return add_aligned(out, value.as_bool() ? "True" : "False", spec, '<');
    }
    return format_number(out, value, spec);
  }
  if (wants_number || (spec.type != 's' && spec.type != '\0')) {
    throw Failure(std::string("Unknown format code '") + spec.type + "' for object of type '" +
                  value.type_name() + "'");
  }
  const Value kept = to_text(runtime, value);
  std::string_view text = kept.as_text(runtime);
  if (spec.precision >= 0) {
    text = text.substr(0, byte_offset(text, static_cast<size_t>(spec.precision)));
  }
  add_aligned(out, text, spec, '<');
}

}  // namespace reprise::jinja
