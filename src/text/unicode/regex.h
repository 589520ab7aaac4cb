// Regular expressions of tokenizer.json: Oniguruma's Ruby syntax, run by PCRE2. Patterns are
// untrusted: one whose work on a text is far more than in proportion to it is an error, not a hang.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::text {

using Ranges = std::vector<std::pair<size_t, size_t>>;
/// Returns false to see no more.
using VisitRange = std::function<bool(size_t begin, size_t end)>;

/// Translates a pattern to PCRE2's syntax. Throws c10::Error for a construct without equivalent.
std::string translate_regex(std::string_view pattern);

/// Immutable; may be shared by threads.
class Regex {
 public:
  /// Throws c10::Error with `where`, the pattern and what is wrong with it.
  Regex(std::string_view pattern, const std::string& where);

  /// All matches in `text` (valid UTF-8) from left to right. Like the library, skips an empty match
  /// directly after the previous match. Throws c10::Error if they take more than kWorkAtLeast +
  /// kWorkPerByte steps for each byte of the text: characters scanned, and groups and repeats
  /// tried.
  Ranges find_all(std::string_view text) const;
  /// The same without a list: calls visit(begin, end) for each.
  void for_each(std::string_view text, const VisitRange& visit) const;

  /// Patterns of real tokenizers need fewer than 200 steps for a byte.
  static constexpr size_t kWorkPerByte = 1000;
  static constexpr size_t kWorkAtLeast = 10'000;  ///< small: a text may be in many pieces

 private:
  struct Code;
  struct Work;
  std::optional<std::pair<size_t, size_t>> find(std::string_view text,
                                                size_t from,
                                                Work& work) const;
  std::string described() const;
  static size_t most_work(std::string_view text);

  std::shared_ptr<const Code> code_;
  std::string pattern_;
  std::string where_;
};

/// What Split and Replace search for: a regular expression or a plain string.
class Pattern {
 public:
  static Pattern literal(std::string text);
  static Pattern regex(Regex regex);

  Ranges find_all(std::string_view text) const;
  void for_each(std::string_view text, const VisitRange& visit) const;

 private:
  std::string literal_;
  std::optional<Regex> regex_;
};

}  // namespace reprise::text
