// Character sets in PCRE2's class syntax, without the brackets.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace reprise::text {

/// What a shorthand matches: `inside`, or all except `outside`. One of them may be empty. Only
/// `inside` can become part of a class.
struct CharacterSet {
  std::string inside;
  std::string outside;
};

/// For \s, \w, \d, \h and their upper-case complements; std::nullopt for other letters.
std::optional<CharacterSet> shorthand_set(char letter);

/// For \p{name}: a general category, a script or a POSIX name. Throws c10::Error for other names.
std::string property_set(std::string_view name);

}  // namespace reprise::text
