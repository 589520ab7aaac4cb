// Numbers and string escapes.
#include "jinja/syntax/literals.h"

#include "jinja/values/unicode.h"
#include "jinja/values/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

namespace reprise::jinja {
namespace {

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

// Returns the end of the digits at `from`, which may have single underscores between them.
size_t end_of_digits(std::string_view text, size_t from) {
  size_t i = from;
  while (i < text.size() && is_ascii_digit(text[i])) {
    ++i;
    if (i + 1 < text.size() && text[i] == '_' && is_ascii_digit(text[i + 1])) {
      ++i;
    }
  }
  return i;
}

size_t end_of_exponent(std::string_view text, size_t from) {
  if (from >= text.size() || (text[from] != 'e' && text[from] != 'E')) {
    return from;
  }
  const size_t sign = from + 1 < text.size() && (text[from + 1] == '+' || text[from + 1] == '-');
  const size_t end = end_of_digits(text, from + 1 + sign);
  return end == from + 1 + sign ? from : end;
}

std::string without_underscores(std::string_view text) {
  std::string result(text);
  std::erase(result, '_');
  return result;
}

NumberLiteral integer_literal(std::string_view digits, size_t length, int base, int line) {
  NumberLiteral literal;
  literal.length = length;
  const std::string plain = without_underscores(digits);
  const auto read =
      std::from_chars(plain.data(), plain.data() + plain.size(), literal.integer, base);
  if (read.ec != std::errc()) {
    throw Failure("the integer " + plain + " is beyond 64 bits", line);
  }
  return literal;
}

int base_of_prefix(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') {
    return 0;
  }
  switch (text[1]) {
    case 'b':
    case 'B':
      return 2;
    case 'o':
    case 'O':
      return 8;
    case 'x':
    case 'X':
      return 16;
    default:
      return 0;
  }
}

int digit_value(char c) {
  if (is_ascii_digit(c)) {
    return c - '0';
  }
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
}

size_t end_of_based_digits(std::string_view text, int base) {
  size_t i = 2;
  while (i < text.size()) {
    const size_t digit = text[i] == '_' ? i + 1 : i;
    if (digit >= text.size() || digit_value(text[digit]) >= base) {
      break;
    }
    i = digit + 1;
  }
  return i;
}

// Reads one escape after its backslash; moves `position` past it.
class Unescaper {
 public:
  Unescaper(std::string_view text, int line) : text_(text), line_(line) {}

  std::string run() {
    while (position_ < text_.size()) {
      const char c = text_[position_++];
      if (c == '\\' && position_ < text_.size()) {
        escape();
      } else {
        result_ += c;
      }
    }
    return std::move(result_);
  }

 private:
  void escape() {
    static constexpr std::string_view kLetters = "\\'\"abfnrtv";
    static constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    const char c = text_[position_];
    if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
      result_ += kMeanings[known];
      ++position_;
    } else if (c == '\n') {
      ++position_;
    } else if (c >= '0' && c <= '7') {
      octal();
    } else if (c == 'x' || c == 'u' || c == 'U') {
      ++position_;
      hexadecimal(c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c == 'N') {
      throw Failure("the escape \\N{...} is not supported: write the character itself", line_);
    } else {
      unknown();
    }
  }

  void octal() {
    int32_t code_point = 0;
    for (int i = 0; i < 3 && position_ < text_.size() && digit_value(text_[position_]) < 8; ++i) {
      code_point = code_point * 8 + digit_value(text_[position_++]);
    }
    append_code_point(result_, code_point);
  }

  void hexadecimal(size_t digits) {
    uint32_t code_point = 0;
    for (size_t i = 0; i < digits; ++i) {
      if (position_ >= text_.size() || digit_value(text_[position_]) > 15) {
        throw Failure("a string holds a truncated \\x, \\u or \\U escape", line_);
      }
      code_point = code_point * 16 + static_cast<uint32_t>(digit_value(text_[position_++]));
    }
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) {
      throw Failure("a string escapes a code point that is no character", line_);
    }
    append_code_point(result_, static_cast<int32_t>(code_point));
  }

  // jinja2 first replaces non-ASCII characters by escapes, so that after a backslash the letters of
  // that escape remain.
  void unknown() {
    result_ += '\\';
    const int32_t code_point = next_code_point(text_, position_);
    if (code_point < 0x80) {
      result_ += static_cast<char>(code_point);
      return;
    }
    std::array<char, 12> letters{};
    const char* format = code_point < 0x100 ? "x%02x" : code_point < 0x10000 ? "u%04x" : "U%08x";
    std::snprintf(letters.data(), letters.size(), format, static_cast<unsigned>(code_point));
    result_ += letters.data();
  }

  std::string_view text_;
  int line_;
  size_t position_ = 0;
  std::string result_;
};

}  // namespace

NumberLiteral read_number(std::string_view text, bool after_dot, int line) {
  const size_t whole = end_of_digits(text, 0);
  if (!after_dot) {
    size_t end = whole;
    if (whole + 1 < text.size() && text[whole] == '.' && is_ascii_digit(text[whole + 1])) {
      end = end_of_digits(text, whole + 1);
    }
    end = end_of_exponent(text, end);
    if (end > whole) {
      NumberLiteral literal;
      literal.length = end;
      literal.is_float = true;
      literal.number = std::strtod(without_underscores(text.substr(0, end)).c_str(), nullptr);
      return literal;
    }
  }
  if (const int base = base_of_prefix(text)) {
    if (const size_t end = end_of_based_digits(text, base); end > 2) {
      return integer_literal(text.substr(2, end - 2), end, base, line);
    }
  }
  size_t end = whole;
  if (text[0] == '0') {
    end = std::min(text.find_first_not_of("0_"), whole);
  }
  return integer_literal(text.substr(0, end), end, 10, line);
}

std::string unescape(std::string_view text, int line) {
  return Unescaper(text, line).run();
}

}  // namespace reprise::jinja
