// Regular expressions of tokenizer.json: Oniguruma's Ruby syntax, run by PCRE2. Patterns are
// untrusted: a match with too many steps is an error, not a hang.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::text {

using Ranges = std::vector<std::pair<size_t, size_t>>;

/// Translates a pattern to PCRE2's syntax. Throws c10::Error for a construct without equivalent.
std::string translate_regex(std::string_view pattern);

/// Immutable; may be shared by threads.
class Regex {
 public:
  /// Throws c10::Error with `where`, the pattern and what is wrong with it.
  Regex(std::string_view pattern, const std::string& where);

  /// All matches in `text` (valid UTF-8) from left to right. Like the library, skips an empty match
  /// directly after the previous match.
  Ranges find_all(std::string_view text) const;

 private:
  struct Code;
  std::optional<std::pair<size_t, size_t>> find(std::string_view text, size_t from) const;

  std::shared_ptr<const Code> code_;
  std::string pattern_;
};

/// What Split and Replace search for: a regular expression or a plain string.
class Pattern {
 public:
  static Pattern literal(std::string text);
  static Pattern regex(Regex regex);

  Ranges find_all(std::string_view text) const;

 private:
  std::string literal_;
  std::optional<Regex> regex_;
};

}  // namespace reprise::text
