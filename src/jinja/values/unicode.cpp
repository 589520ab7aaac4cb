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

void append_upper(TextBuilder& out, int32_t code_point) {
  const auto* found = std::find_if(kLongUpper.begin(), kLongUpper.end(), [&](const auto& entry) {
    return entry.first == code_point;
  });
  if (found != kLongUpper.end()) {
    out.add(found->second);
  } else {
    out.add_code_point(utf8proc_toupper(code_point));
  }
}

void append_title(TextBuilder& out, int32_t code_point) {
  constexpr std::array<const char*, 7> kLigatures = {"Ff", "Fi", "Fl", "Ffi", "Ffl", "St", "St"};
  if (code_point == 0xDF) {
    out.add("Ss");
  } else if (code_point >= 0xFB00 && code_point <= 0xFB06) {
    out.add(kLigatures.at(static_cast<size_t>(code_point - 0xFB00)));
  } else {
    out.add_code_point(utf8proc_totitle(code_point));
  }
}

bool is_ignorable(int32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME ||
         kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_LM ||
         kind == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' || c == 0xB7 ||
         c == 0x2019;
}

// A sigma from `begin` to `end` is final after a letter and not before one; combining marks are
// ignored. A sigma is a letter, so that each mark is passed at most once from either side.
bool is_final_sigma(std::string_view text, size_t begin, size_t end) {
  int32_t before = 0;
  do {
    if (begin == 0) {
      return false;
    }
    before = previous_code_point(text, begin);
  } while (is_ignorable(before));
  while (is_cased(before) && end < text.size()) {
    const int32_t after = next_code_point(text, end);
    if (!is_ignorable(after)) {
      return !is_cased(after);
    }
  }
  return is_cased(before);
}

// Adds the code point at `position` in lower case, and moves past it.
void append_lower(TextBuilder& out, std::string_view text, size_t& position) {
  const size_t begin = position;
  const int32_t code_point = next_code_point(text, position);
  if (code_point == 0x130) {
    out.add("i̇");
  } else if (code_point == kCapitalSigma && is_final_sigma(text, begin, position)) {
    out.add_code_point(kFinalSigma);
  } else {
    out.add_code_point(utf8proc_tolower(code_point));
  }
}

}  // namespace

int32_t next_code_point(std::string_view text, size_t& position) {
  return static_cast<int32_t>(text::next_code_point(text, position));
}

int32_t previous_code_point(std::string_view text, size_t& position) {
  return static_cast<int32_t>(text::previous_code_point(text, position));
}

void append_code_point(std::string& text, int32_t code_point) {
  text::append_utf8(text, static_cast<char32_t>(code_point));
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

void to_upper(TextBuilder& out, std::string_view text) {
  for (size_t position = 0; position < text.size();) {
    append_upper(out, next_code_point(text, position));
  }
}

void to_lower(TextBuilder& out, std::string_view text) {
  for (size_t position = 0; position < text.size();) {
    append_lower(out, text, position);
  }
}

void capitalize(TextBuilder& out, std::string_view text) {
  size_t position = 0;
  if (!text.empty()) {
    append_title(out, next_code_point(text, position));
  }
  while (position < text.size()) {
    append_lower(out, text, position);
  }
}

void title_case(TextBuilder& out, std::string_view text) {
  bool inside_word = false;
  for (size_t position = 0; position < text.size();) {
    size_t next = position;
    const int32_t code_point = next_code_point(text, next);
    if (inside_word) {
      append_lower(out, text, position);
    } else {
      append_title(out, code_point);
    }
    position = next;
    inside_word = is_cased(code_point);
  }
}

void swap_case(TextBuilder& out, std::string_view text) {
  for (size_t position = 0; position < text.size();) {
    size_t next = position;
    const int32_t code_point = next_code_point(text, next);
    if (is_upper(code_point)) {
      append_lower(out, text, position);
    } else if (is_lower(code_point)) {
      append_upper(out, code_point);
    } else {
      out.add_code_point(code_point);
    }
    position = next;
  }
}

void case_fold(TextBuilder& out, std::string_view text) {
  for (size_t position = 0; position < text.size();) {
    const int32_t code_point = next_code_point(text, position);
    const auto* found = std::find_if(kLongUpper.begin(), kLongUpper.end(), [&](const auto& entry) {
      return entry.first == code_point;
    });
    if (found != kLongUpper.end()) {
      to_lower(out, found->second);
    } else {
      // Via upper case, so that ς and σ, or ſ and s, fold to the same character.
      out.add_code_point(utf8proc_tolower(utf8proc_toupper(code_point)));
    }
  }
}

namespace {

template <class Goes>
std::string_view strip_while(std::string_view text, Side side, const Goes& goes) {
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
    if (!goes(previous_code_point(text, start))) {
      break;
    }
    end = start;
  }
  return text.substr(begin, end - begin);
}

}  // namespace

std::string_view strip(std::string_view text, Side side) {
  return strip_while(text, side, is_space);
}

std::string_view strip(Budget& budget,
                       std::string_view text,
                       Side side,
                       std::string_view characters) {
  return strip_while(text, side, [&](int32_t c) {
    for (size_t position = 0; position < characters.size();) {
      budget.step();
      if (next_code_point(characters, position) == c) {
        return true;
      }
    }
    return false;
  });
}

}  // namespace reprise::jinja
