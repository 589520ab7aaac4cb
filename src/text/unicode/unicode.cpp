// Character properties from utf8proc, corrected by the tables of unicode_versions.h.
#include "text/unicode/unicode.h"

#include "text/unicode/unicode_versions.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

namespace reprise::text {
namespace {

template <size_t count>
bool contains(const CodePointRange (&ranges)[count], char32_t c) {
  const auto* found =
      std::partition_point(std::begin(ranges), std::end(ranges), [c](const CodePointRange& range) {
        return range.last < c;
      });
  return found != std::end(ranges) && found->first <= c;
}

/// "Lu", "Nd", ...: utf8proc's two letters.
std::string_view category(char32_t c) {
  return utf8proc_category_string(static_cast<utf8proc_int32_t>(c));
}

/// Whether Unicode 15.1 or 16 gave `c` a category that begins with `letters`.
bool was_added_as(char32_t c, std::string_view letters) {
  return std::any_of(std::begin(kCategoryAdditions),
                     std::end(kCategoryAdditions),
                     [&](const CategoryAddition& addition) {
                       return addition.first <= c && c <= addition.last &&
                              std::string_view(addition.category).starts_with(letters);
                     });
}

bool is_category(char32_t c, std::string_view letters) {
  return category(c).starts_with(letters) || (c >= 0x800 && was_added_as(c, letters));
}

struct LowerCase {
  CodePointRange upper;
  char32_t lower;  // of upper.first; the following ones are consecutive
};

// Pairs of Unicode 16 and 17.
constexpr std::array<LowerCase, 10> kNewLowerCase = {{{{0x1C89, 0x1C89}, 0x1C8A},
                                                      {{0xA7CB, 0xA7CB}, 0x0264},
                                                      {{0xA7CC, 0xA7CC}, 0xA7CD},
                                                      {{0xA7CE, 0xA7CE}, 0xA7CF},
                                                      {{0xA7D2, 0xA7D2}, 0xA7D3},
                                                      {{0xA7D4, 0xA7D4}, 0xA7D5},
                                                      {{0xA7DA, 0xA7DA}, 0xA7DB},
                                                      {{0xA7DC, 0xA7DC}, 0x019B},
                                                      {{0x10D50, 0x10D65}, 0x10D70},
                                                      {{0x16EA0, 0x16EB8}, 0x16EBB}}};

}  // namespace

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_number(char32_t c) {
  if (c < 0x80) {
    return c >= '0' && c <= '9';
  }
  return category(c).front() == 'N' || contains(kNewNumbers, c);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  }
  // Two characters were punctuation in Unicode 7 and are not any more.
  return (category(c).front() == 'P' && !contains(kLaterPunctuation, c)) || c == 0x166D ||
         c == 0x111C9;
}

bool is_accent(char32_t c) {
  if (c < 0x300) {
    return false;
  }
  return (category(c).front() == 'M' && !contains(kLaterMarks, c)) || c == 0x1CF2 || c == 0x1CF3;
}

bool is_word_character(char32_t c) {
  if (c < 0x80) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  }
  // Circled and squared letters are alphabetic symbols.
  const bool letter_symbol = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                             (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  return letter_symbol || c == 0x200C || c == 0x200D || is_category(c, "L") ||
         is_category(c, "M") || is_category(c, "Nd") || is_category(c, "Nl") ||
         is_category(c, "Pc");
}

std::u32string to_lower(char32_t c) {
  if (c == 0x130) {
    return {U'i', 0x307};
  }
  for (const LowerCase& pair : kNewLowerCase) {
    if (pair.upper.first <= c && c <= pair.upper.last) {
      return {pair.lower + (c - pair.upper.first)};
    }
  }
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)))};
}

int combining_class(char32_t c) {
  if (c < 0x300 || contains(kLaterNormalization, c)) {
    return 0;
  }
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

std::u32string decompose(char32_t c, bool compatibility) {
  if (c < 0x80 || contains(kLaterNormalization, c)) {
    return {c};
  }
  std::array<utf8proc_int32_t, 32> buffer{};  // the longest decomposition has 18
  int boundary = 0;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (compatibility ? UTF8PROC_COMPAT : 0));
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c),
                                             buffer.data(),
                                             static_cast<utf8proc_ssize_t>(buffer.size()),
                                             options,
                                             &boundary);
  if (count < 1 || count > static_cast<utf8proc_ssize_t>(buffer.size())) {
    return {c};
  }
  return {buffer.begin(), buffer.begin() + count};
}

}  // namespace reprise::text
