// Sets of characters in the syntax of a PCRE2 class, without the brackets.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace reprise::detail {

/// What a shorthand matches: `inside`, or all but `outside`. One may be empty; a class can only
/// take up `inside`.
struct CharacterSet {
  std::string inside;
  std::string outside;
};

/// For \s, \w, \d, \h and, in upper case, their complements; nothing for another letter.
std::optional<CharacterSet> shorthand_set(char letter);

/// For \p{name}: a general category, a script or a POSIX name. Throws c10::Error for a name that is
/// none of these.
std::string property_set(std::string_view name);

}  // namespace reprise::detail
