// Oniguruma's \s, \w and \p{...} (Unicode 16) for a PCRE2 with Unicode 14: PCRE2's own property
// plus the code points assigned since.
#include "text/unicode/regex_sets.h"

#include "text/unicode/unicode_versions.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <utility>

namespace reprise::text {
namespace {

std::string range(char32_t first, char32_t last) {
  std::array<char, 32> text{};
  std::snprintf(text.data(),
                text.size(),
                "\\x{%X}-\\x{%X}",
                static_cast<unsigned>(first),
                static_cast<unsigned>(last));
  return text.data();
}

/// Code points added to a category ("L" or "Lu").
std::string additions(std::string_view category) {
  std::string result;
  for (const CategoryAddition& addition : kCategoryAdditions) {
    if (std::string_view(addition.category).starts_with(category)) {
      result += range(addition.first, addition.last);
    }
  }
  return result;
}

std::string category_set(std::string_view category) {
  return "\\p{" + std::string(category) + "}" + additions(category);
}

// White_Space. PCRE2's \s also has U+180E.
const CharacterSet kWhiteSpace = {
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"
    "\\x{205F}\\x{3000}",
    "\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}"
    "\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}"
    "\\x{3001}-\\x{10FFFF}"};

/// Alphabetic, marks, decimal digits, connectors, and six numbers of Latin-1 (an oddity of
/// Oniguruma's table).
std::string word_set() {
  return "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}" +
         additions("L") + additions("M") + additions("Nd");
}

/// Names are compared ignoring case, spaces, hyphens and underscores.
std::string plain(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c != ' ' && c != '_' && c != '-') {
      result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return result;
}

constexpr std::array<std::pair<const char*, const char*>, 38> kCategories = {{
    {"l", "L"},      {"letter", "L"},
    {"lu", "Lu"},    {"uppercaseletter", "Lu"},
    {"ll", "Ll"},    {"lowercaseletter", "Ll"},
    {"lt", "Lt"},    {"titlecaseletter", "Lt"},
    {"lm", "Lm"},    {"modifierletter", "Lm"},
    {"lo", "Lo"},    {"otherletter", "Lo"},
    {"m", "M"},      {"mark", "M"},
    {"mn", "Mn"},    {"mc", "Mc"},
    {"me", "Me"},    {"n", "N"},
    {"number", "N"}, {"nd", "Nd"},
    {"nl", "Nl"},    {"no", "No"},
    {"p", "P"},      {"punctuation", "P"},
    {"pc", "Pc"},    {"pd", "Pd"},
    {"ps", "Ps"},    {"pe", "Pe"},
    {"pi", "Pi"},    {"pf", "Pf"},
    {"po", "Po"},    {"s", "S"},
    {"symbol", "S"}, {"sm", "Sm"},
    {"sc", "Sc"},    {"sk", "Sk"},
    {"so", "So"},    {"digit", "Nd"},
}};

constexpr std::array<const char*, 11> kStableCategories = {
    "z", "zs", "zl", "zp", "cc", "co", "cs", "separator", "control", "privateuse", "surrogate"};

std::string stable_category(const std::string& name) {
  if (name == "separator") {
    return "Z";
  }
  if (name == "control") {
    return "Cc";
  }
  if (name == "privateuse") {
    return "Co";
  }
  if (name == "surrogate") {
    return "Cs";
  }
  std::string category = name;
  category[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(category[0])));
  return category;
}

/// Matches the property Script, not Script_Extensions, which is PCRE2's default.
std::string script_set(std::string_view name, const std::string& key) {
  const bool is_name = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ' ' || c == '-';
  });
  TORCH_CHECK(is_name, "\\p{", name, "} is not a property that we know");
  std::string extra;
  if (key == "han") {
    extra = range(0x2B739, 0x2B739) + range(0x2EBF0, 0x2EE5D) + range(0x31350, 0x323AF);
  } else if (key == "hiragana") {
    extra = range(0x1B132, 0x1B132);
  } else if (key == "katakana") {
    extra = range(0x1B155, 0x1B155);
  }
  return "\\p{sc:" + std::string(name) + "}" + extra;
}

}  // namespace

std::optional<CharacterSet> shorthand_set(char letter) {
  switch (letter) {
    case 's':
      return kWhiteSpace;
    case 'S':
      return CharacterSet{kWhiteSpace.outside, kWhiteSpace.inside};
    case 'd':
      return CharacterSet{category_set("Nd"), {}};
    case 'D':
      return CharacterSet{{}, category_set("Nd")};
    case 'w':
      return CharacterSet{word_set(), {}};
    case 'W':
      return CharacterSet{{}, word_set()};
    case 'h':  // a hexadecimal digit in Ruby's syntax
      return CharacterSet{"0-9A-Fa-f", "\\x{0}-/:-@G-`g-\\x{10FFFF}"};
    case 'H':
      return CharacterSet{"\\x{0}-/:-@G-`g-\\x{10FFFF}", "0-9A-Fa-f"};
    default:
      return std::nullopt;
  }
}

std::string property_set(std::string_view name) {
  const std::string key = plain(name);
  for (const auto& [spelling, category] : kCategories) {
    if (key == spelling) {
      return category_set(category);
    }
  }
  if (std::find(kStableCategories.begin(), kStableCategories.end(), key) !=
      kStableCategories.end()) {
    return "\\p{" + stable_category(key) + "}";
  }
  if (key == "alpha" || key == "alphabetic") {
    return "\\p{Alphabetic}" + additions("L");
  }
  if (key == "alnum") {
    return "\\p{Alphabetic}\\p{Nd}" + additions("L") + additions("Nd");
  }
  if (key == "space" || key == "whitespace") {
    return kWhiteSpace.inside;
  }
  if (key == "punct") {
    return "\\p{P}\\p{S}" + additions("P") + additions("S");
  }
  if (key == "word") {
    return word_set();
  }
  if (key == "upper" || key == "uppercase") {
    return "\\p{Uppercase}" + additions("Lu");
  }
  if (key == "lower" || key == "lowercase") {
    return "\\p{Lowercase}" + additions("Ll");
  }
  if (key == "any") {
    return "\\x{0}-\\x{10FFFF}";
  }
  return script_set(name, key);
}

}  // namespace reprise::text
