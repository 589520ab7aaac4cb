// int(), float() and round().
#include "jinja/values/numbers.h"

#include "jinja/values/unicode.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace reprise::jinja {
namespace {

// Removes single underscores between digits; std::nullopt if there is one elsewhere.
std::optional<std::string> without_underscores(Budget& budget,
                                               std::string_view text,
                                               std::string_view digits) {
  budget.charge(text.size(), 4);  // this copy, and those that the callers make of it
  const auto is_digit_at = [&](size_t i) {
    return i < text.size() && digits.find(text[i]) != std::string_view::npos;
  };
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      result += text[i];
    } else if (i == 0 || !is_digit_at(i - 1) || !is_digit_at(i + 1)) {
      return std::nullopt;
    }
  }
  return result;
}

constexpr std::string_view kAllDigits =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

int64_t prefix_base(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') {
    return 0;
  }
  const char letter = static_cast<char>(text[1] | 0x20);
  return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
}

Value round_integer(int64_t number, int64_t digits) {
  if (digits >= 0) {
    return Value(number);
  }
  if (digits < -18) {
    return Value(int64_t{0});
  }
  int64_t unit = 1;
  for (int64_t i = 0; i < -digits; ++i) {
    unit *= 10;
  }
  const int64_t rest = ((number % unit) + unit) % unit;
  const int64_t half = unit / 2;
  const bool is_odd = ((number - rest) / unit) % 2 != 0;
  int64_t result = number - rest;
  const bool rounds_up = rest > half || (rest == half && is_odd);
  if (rounds_up && __builtin_add_overflow(result, unit, &result)) {
    throw Failure("an integer is beyond 64 bits");
  }
  return Value(result);
}

}  // namespace

std::optional<int64_t> parse_integer(Budget& budget, std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) {
    return std::nullopt;
  }
  text = strip(text, Side::Both);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) {
    text.remove_prefix(1);
  }
  const int64_t prefix = prefix_base(text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    base = prefix;
    text.remove_prefix(2);
    text.remove_prefix(text.starts_with('_') ? 1 : 0);
  } else if (base == 0) {
    const bool is_zero = text.find_first_not_of("0_") == std::string_view::npos;
    if (text.starts_with('0') && !is_zero) {
      return std::nullopt;
    }
    base = 10;
  }
  const auto digits = without_underscores(budget, text, kAllDigits);
  if (!digits || digits->empty()) {
    return std::nullopt;
  }
  const std::string signed_digits = (is_negative ? "-" : "") + *digits;
  int64_t result = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  const auto read = std::from_chars(signed_digits.data(), end, result, static_cast<int>(base));
  if (read.ptr != end || digits->starts_with('-')) {
    return std::nullopt;
  }
  if (read.ec == std::errc::result_out_of_range) {
    throw Failure("the integer " + signed_digits.substr(0, 40) + " is beyond 64 bits");
  }
  return result;
}

std::optional<double> parse_float(Budget& budget, std::string_view text) {
  const auto plain = without_underscores(budget, strip(text, Side::Both), "0123456789");
  if (!plain || plain->empty()) {
    return std::nullopt;
  }
  std::string lower = *plain;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  });
  const std::string unsigned_text = lower.substr(lower[0] == '-' || lower[0] == '+' ? 1 : 0);
  const bool is_word =
      unsigned_text == "inf" || unsigned_text == "infinity" || unsigned_text == "nan";
  // strtod accepts hexadecimal and more; Python does not.
  if (!is_word && lower.find_first_not_of("0123456789+-.e") != std::string::npos) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double result = std::strtod(lower.c_str(), &end);
  return end == lower.c_str() + lower.size() ? std::optional<double>(result) : std::nullopt;
}

Value round_number(const Value& number, int64_t digits, bool to_whole) {
  if (number.is_integral()) {
    return round_integer(number.as_int(), digits);
  }
  const double value = number.as_float();
  if (to_whole) {
    const double whole = std::nearbyint(value);
    if (!(std::abs(whole) < 9.2e18)) {
      throw Failure("cannot convert the float to an integer of 64 bits");
    }
    return Value(static_cast<int64_t>(whole));
  }
  if (!std::isfinite(value) || digits > 323) {
    return Value(value);
  }
  if (digits < -308) {
    return Value(std::copysign(0.0, value));
  }
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return Value(std::nearbyint(value / unit) * unit);
  }
  // printf rounds by the exact decimal value.
  std::array<char, 700> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(digits), value);
  return Value(std::strtod(buffer.data(), nullptr));
}

}  // namespace reprise::jinja
