// Scans from left to right. Signs and currencies are looked up backwards from the first digit.
#include "reward/written_number.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <utility>

namespace reprise::reward {
namespace {

constexpr std::string_view kMinusSign = "\u2212";  // the minus of typeset text
constexpr size_t kMostExponentDigits = 6;
constexpr int64_t kLargestExponent = 1'000'000;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

Decimal decimal_of(std::string digits, int64_t exponent) {
  digits.erase(0, digits.find_first_not_of('0'));
  const size_t end = digits.find_last_not_of('0') + 1;  // npos + 1 is 0
  exponent += static_cast<int64_t>(digits.size() - end);
  digits.resize(end);
  return {digits, digits.empty() ? 0 : exponent};
}

/// Reads tokens at a position and advances past them.
class Scanner {
 public:
  Scanner(std::string_view text, size_t at) : text_(text), at_(at) {}
  size_t at() const { return at_; }

  bool has_digit(size_t ahead = 0) const {
    return at_ + ahead < text_.size() && is_digit(text_[at_ + ahead]);
  }

  bool skip(std::string_view what) {
    if (text_.substr(at_, what.size()) != what) {
      return false;
    }
    at_ += what.size();
    return true;
  }

  Decimal decimal() {
    std::string digits = integer();
    int64_t exponent = 0;
    if (at_ < text_.size() && text_[at_] == '.' && has_digit(1)) {
      ++at_;
      const std::string behind = plain_digits();
      digits += behind;
      exponent = -static_cast<int64_t>(behind.size());
    }
    return decimal_of(std::move(digits), exponent + power());
  }

 private:
  std::string plain_digits() {
    const size_t begin = at_;
    while (has_digit()) {
      ++at_;
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  /// Digits, with commas before groups of three.
  std::string integer() {
    std::string digits = plain_digits();
    const auto has_group = [&] {
      return at_ < text_.size() && text_[at_] == ',' && has_digit(1) && has_digit(2) &&
             has_digit(3) && !has_digit(4);
    };
    const bool may_be_grouped = !digits.empty() && digits.size() <= 3;
    while (may_be_grouped && has_group()) {
      digits.append(text_.substr(at_ + 1, 3));
      at_ += 4;
    }
    return digits;
  }

  /// The number after an e; 0, without reading anything, if there is none.
  int64_t power() {
    const size_t begin = at_;
    if (skip("e") || skip("E")) {
      const bool is_negative = skip("-");
      if (!is_negative) {
        skip("+");
      }
      const std::string digits = plain_digits();
      if (!digits.empty()) {
        // Exponents beyond this are not meaningful and are treated as equal.
        const int64_t value = digits.size() > kMostExponentDigits
                                  ? kLargestExponent
                                  : std::strtoll(digits.c_str(), nullptr, 10);
        return is_negative ? -value : value;
      }
    }
    at_ = begin;
    return 0;
  }

  std::string_view text_;
  size_t at_;
};

/// The start of the sign and currency before a number at `begin`; sets `is_negative`.
size_t start_of(std::string_view text, size_t begin, bool& is_negative) {
  size_t start = begin;
  if (start > 0 && text[start - 1] == '$') {
    start -= start > 1 && text[start - 2] == '\\' ? 2 : 1;
  }
  for (const std::string_view sign : {std::string_view("-"), std::string_view("+"), kMinusSign}) {
    if (!text.substr(0, start).ends_with(sign)) {
      continue;
    }
    const size_t before = start - sign.size();
    const char last = before > 0 ? text[before - 1] : ' ';
    if (!is_digit(last) && !is_word(last) && last != ')') {
      is_negative = sign != "+";
      return before;
    }
  }
  return start;
}

struct Found {
  WrittenNumber number;
  size_t begin, end;
};

Found read_at(std::string_view text, size_t begin) {
  WrittenNumber number;
  const size_t start = start_of(text, begin, number.is_negative);
  Scanner scanner(text, begin);
  number.value = scanner.decimal();
  Scanner behind = scanner;
  if (behind.skip("/") && behind.has_digit()) {
    number.divisor = behind.decimal();
    scanner = behind;
  }
  number.is_percent = scanner.skip("%") || scanner.skip("\\%");
  return {std::move(number), start, scanner.at()};
}

/// The first number at or after `at`.
std::optional<Found> next_number(std::string_view text, size_t at) {
  while (at < text.size()) {
    if (is_word(text[at])) {
      while (at < text.size() && (is_word(text[at]) || is_digit(text[at]))) {
        ++at;
      }
      continue;
    }
    const bool is_point = text[at] == '.' && at + 1 < text.size() && is_digit(text[at + 1]);
    if (is_digit(text[at]) || is_point) {
      return read_at(text, at);
    }
    ++at;
  }
  return std::nullopt;
}

long double magnitude(const Decimal& decimal) {
  return std::strtold((decimal.digits + "e" + std::to_string(decimal.exponent)).c_str(), nullptr);
}

bool has_value(const WrittenNumber& number) {
  return !number.divisor || !number.divisor->digits.empty();
}

bool is_equal(const WrittenNumber& one, const WrittenNumber& other) {
  if (!has_value(one) || !has_value(other)) {
    return false;
  }
  if (one.is_negative != other.is_negative && !one.value.digits.empty()) {
    return false;
  }
  const bool is_same_text = one.value == other.value && one.divisor == other.divisor;
  if (is_same_text || (!one.divisor && !other.divisor)) {
    return is_same_text;
  }
  const long double left =
      magnitude(one.value) * (other.divisor ? magnitude(*other.divisor) : 1.0L);
  const long double right = magnitude(other.value) * (one.divisor ? magnitude(*one.divisor) : 1.0L);
  return std::fabs(left - right) <= 1e-15L * std::max(left, right);
}

/// Divides by 100 if there is a percent sign.
WrittenNumber without_percent(WrittenNumber number) {
  if (number.is_percent && !number.value.digits.empty()) {
    number.value.exponent -= 2;
  }
  return number;
}

}  // namespace

std::optional<WrittenNumber> last_number(std::string_view text) {
  std::optional<WrittenNumber> last;
  for (auto found = next_number(text, 0); found; found = next_number(text, found->end)) {
    last = found->number;
  }
  return last;
}

std::optional<WrittenNumber> whole_number(std::string_view text) {
  const auto found = next_number(text, 0);
  return found && found->begin == 0 && found->end == text.size() ? std::optional(found->number)
                                                                 : std::nullopt;
}

bool have_same_value(const WrittenNumber& one, const WrittenNumber& other) {
  return is_equal(without_percent(one), without_percent(other)) ||
         (one.is_percent != other.is_percent && is_equal(one, other));
}

}  // namespace reprise::reward
