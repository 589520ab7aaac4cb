// Code points with utf8proc's tables. utf8proc maps case one to one; the common characters that
// Python maps to several (ß to SS) are listed here.
#include "jinja/values/unicode.h"

#include "text/unicode/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

namespace reprise::jinja {
namespace {

constexpr int32_t kCapitalSigma = 0x3A3;
constexpr int32_t kFinalSigma = 0x3C2;

constexpr std::array<std::pair<int32_t, const char*>, 12> kLongUpper = {{
    {0xDF, "SS"},
    {0x149, "ʼN"},
    {0x1F0, "J̌"},
    {0x587, "ԵՒ"},
    {0x1E96, "H̱"},
    {0xFB00, "FF"},
    {0xFB01, "FI"},
    {0xFB02, "FL"},
    {0xFB03, "FFI"},
    {0xFB04, "FFL"},
    {0xFB05, "ST"},
    {0xFB06, "ST"},
}};

utf8proc_category_t category(int32_t code_point) {
  return utf8proc_category(code_point);
}

bool is_cased(int32_t code_point) {
  return is_upper(code_point) || is_lower(code_point) || is_title(code_point);
}

void append_upper(std::string& result, int32_t code_point) {
  const auto* found = std::find_if(kLongUpper.begin(), kLongUpper.end(), [&](const auto& entry) {
    return entry.first == code_point;
  });
  if (found != kLongUpper.end()) {
    result += found->second;
  } else {
    append_code_point(result, utf8proc_toupper(code_point));
  }
}

void append_title(std::string& result, int32_t code_point) {
  if (code_point == 0xDF) {
    result += "Ss";
  } else if (code_point >= 0xFB00 && code_point <= 0xFB06) {
    std::string upper;
    append_upper(upper, code_point);
    result += upper[0];
    result += to_lower(std::string_view(upper).substr(1));
  } else {
    append_code_point(result, utf8proc_totitle(code_point));
  }
}

// A sigma is final after a letter and not before one; combining marks are ignored.
bool is_final_sigma(const CodePoints& text, size_t at) {
  const auto ignorable = [](int32_t c) {
    const auto kind = category(c);
    return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME ||
           kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_LM ||
           kind == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' || c == 0xB7 ||
           c == 0x2019;
  };
  size_t before = at;
  while (before > 0 && ignorable(text[before - 1])) {
    --before;
  }
  if (before == 0 || !is_cased(text[before - 1])) {
    return false;
  }
  size_t after = at + 1;
  while (after < text.size() && ignorable(text[after])) {
    ++after;
  }
  return after == text.size() || !is_cased(text[after]);
}

void append_lower(std::string& result, const CodePoints& text, size_t at) {
  if (text[at] == 0x130) {
    result += "i̇";
  } else if (text[at] == kCapitalSigma && is_final_sigma(text, at)) {
    append_code_point(result, kFinalSigma);
  } else {
    append_code_point(result, utf8proc_tolower(text[at]));
  }
}

}  // namespace

int32_t next_code_point(std::string_view text, size_t& position) {
  return static_cast<int32_t>(text::next_code_point(text, position));
}

CodePoints decode(std::string_view text) {
  CodePoints result;
  result.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    result.push_back(next_code_point(text, position));
  }
  return result;
}

void append_code_point(std::string& text, int32_t code_point) {
  text::append_utf8(text, static_cast<char32_t>(code_point));
}

std::string encode(const CodePoints& code_points) {
  std::string result;
  result.reserve(code_points.size());
  for (const int32_t code_point : code_points) {
    append_code_point(result, code_point);
  }
  return result;
}

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return !text::is_continuation(byte); }));
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t position = 0;
  for (; position < text.size(); ++position) {
    if (text::is_continuation(text[position])) {
      continue;
    }
    if (index == 0) {
      break;
    }
    --index;
  }
  return position;
}

bool is_space(int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

bool is_line_break(int32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_alpha(int32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(int32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(int32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
         (c >= 0x2488 && c <= 0x2490) || (c >= 0x2776 && c <= 0x277E);
}

bool is_alnum(int32_t c) {
  const auto kind = category(c);
  return is_alpha(c) || (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO);
}

bool is_upper(int32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216F) ||
         (c >= 0x24B6 && c <= 0x24CF);
}

bool is_lower(int32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA ||
         (c >= 0x2170 && c <= 0x217F) || (c >= 0x24D0 && c <= 0x24E9);
}

bool is_title(int32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LT;
}

bool is_printable(int32_t c) {
  const auto kind = category(c);
  if (kind == UTF8PROC_CATEGORY_ZS) {
    return c == ' ';
  }
  return kind != UTF8PROC_CATEGORY_CN && kind != UTF8PROC_CATEGORY_ZL &&
         kind != UTF8PROC_CATEGORY_ZP && kind != UTF8PROC_CATEGORY_CC &&
         kind != UTF8PROC_CATEGORY_CF && kind != UTF8PROC_CATEGORY_CS &&
         kind != UTF8PROC_CATEGORY_CO;
}

bool is_identifier_start(int32_t c) {
  return c == '_' || is_alpha(c) || category(c) == UTF8PROC_CATEGORY_NL;
}

bool is_identifier_part(int32_t c) {
  const auto kind = category(c);
  return is_identifier_start(c) || is_decimal(c) || kind == UTF8PROC_CATEGORY_MN ||
         kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_PC;
}

std::string to_upper(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    append_upper(result, next_code_point(text, position));
  }
  return result;
}

std::string to_lower(std::string_view text) {
  const CodePoints code_points = decode(text);
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < code_points.size(); ++i) {
    append_lower(result, code_points, i);
  }
  return result;
}

std::string capitalize(std::string_view text) {
  const CodePoints code_points = decode(text);
  std::string result;
  for (size_t i = 0; i < code_points.size(); ++i) {
    if (i == 0) {
      append_title(result, code_points[0]);
    } else {
      append_lower(result, code_points, i);
    }
  }
  return result;
}

std::string title_case(std::string_view text) {
  const CodePoints code_points = decode(text);
  std::string result;
  bool inside_word = false;
  for (size_t i = 0; i < code_points.size(); ++i) {
    if (inside_word) {
      append_lower(result, code_points, i);
    } else {
      append_title(result, code_points[i]);
    }
    inside_word = is_cased(code_points[i]);
  }
  return result;
}

std::string swap_case(std::string_view text) {
  const CodePoints code_points = decode(text);
  std::string result;
  for (size_t i = 0; i < code_points.size(); ++i) {
    if (is_upper(code_points[i])) {
      append_lower(result, code_points, i);
    } else if (is_lower(code_points[i])) {
      append_upper(result, code_points[i]);
    } else {
      append_code_point(result, code_points[i]);
    }
  }
  return result;
}

std::string case_fold(std::string_view text) {
  std::string result;
  for (size_t position = 0; position < text.size();) {
    const int32_t code_point = next_code_point(text, position);
    const auto* found = std::find_if(kLongUpper.begin(), kLongUpper.end(), [&](const auto& entry) {
      return entry.first == code_point;
    });
    if (found != kLongUpper.end()) {
      result += to_lower(found->second);
    } else {
      // Via upper case, so that ς and σ, or ſ and s, fold to the same character.
      append_code_point(result, utf8proc_tolower(utf8proc_toupper(code_point)));
    }
  }
  return result;
}

std::string_view strip(std::string_view text, Side side, const std::string* characters) {
  const CodePoints set = characters ? decode(*characters) : CodePoints{};
  const auto goes = [&](int32_t c) {
    return characters ? std::find(set.begin(), set.end(), c) != set.end() : is_space(c);
  };
  size_t begin = 0;
  size_t end = text.size();
  while (side != Side::Right && begin < end) {
    size_t next = begin;
    if (!goes(next_code_point(text, next))) {
      break;
    }
    begin = next;
  }
  while (side != Side::Left && begin < end) {
    size_t start = end;
    if (!goes(static_cast<int32_t>(text::previous_code_point(text, start)))) {
      break;
    }
    end = start;
  }
  return text.substr(begin, end - begin);
}

}  // namespace reprise::jinja
