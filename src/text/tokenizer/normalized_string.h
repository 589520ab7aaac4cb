// A text in normalization, with alignments to the original text (NormalizedString in Hugging Face's
// tokenizers). Invariant, while it tracks origins: origin_ is empty (the text equals the original
// from byte `base` on) or has one range per byte of text. All bytes of a character have the same
// origin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::text {

/// Half-open byte range in the original text.
struct Origin {
  uint32_t begin, end;
};

/// One character of a rewritten text. `change` relates it to the old characters: 0 replaces the
/// next one, 1 is inserted (with the origin of the character before it), -n replaces the next one
/// and removes n more.
struct Change {
  char32_t character;
  int change;
};

class NormalizedString {
 public:
  NormalizedString() = default;
  /// `text` is the part of the original that begins at byte `base`.
  explicit NormalizedString(std::string_view text, size_t base = 0);

  std::string_view text() const { return text_; }
  size_t original_size() const { return original_size_; }
  bool empty() const { return text_.empty(); }

  /// Limit on the size of a rewritten text. Rules come from files, and a few rules that each double
  /// the text could exhaust memory.
  static size_t max_bytes(size_t original) { return 64 * original + (size_t{1} << 20); }

  /// Origins are not needed any more. They take eight times the memory of the text. From now on all
  /// are (0, 0), also of what is made from this text.
  void stop_tracking();

  /// The origin of the bytes [begin, end), which must not be empty.
  std::pair<size_t, size_t> origin(size_t begin, size_t end) const;

  /// Rewrites the whole text and removes its first `removed` characters.
  void transform(const std::vector<Change>& changes, size_t removed = 0);

  /// Keeps only the characters for which `keep` returns true.
  template <typename Keep>
  void filter(Keep keep);

  void prepend(std::string_view prefix);  ///< with the origin of the first character

  /// Replaces each range (ascending, disjoint) by `content`, with the origin of the last character
  /// in the range.
  void replace(const std::vector<std::pair<size_t, size_t>>& ranges, std::string_view content);

  /// The bytes [begin, end), with their origins.
  NormalizedString part(size_t begin, size_t end) const;
  /// An empty text whose original has so many bytes, to append to.
  static NormalizedString empty_of(size_t original_size);
  /// An empty text with the same original, to append to.
  NormalizedString empty_copy() const;
  /// Appends the bytes [begin, end) of `other` with their origins.
  void append(const NormalizedString& other, size_t begin, size_t end);
  /// Appends `text` with a single origin.
  void append(std::string_view text, Origin origin);
  void reserve(size_t bytes);

 private:
  Origin byte_origin(size_t at) const;
  void materialize();  // makes origin_ explicit

  std::string text_;
  size_t base_ = 0;
  size_t original_size_ = 0;
  std::vector<Origin> origin_;
  bool tracks_ = true;
};

/// Throws c10::Error if `size` is more than NormalizedString::max_bytes(original).
void check_growth(size_t original, size_t size);

/// The code points of `text`.
std::u32string code_points(std::string_view text);

template <typename Keep>
void NormalizedString::filter(Keep keep) {
  std::vector<Change> kept;
  kept.reserve(text_.size());
  size_t removed_before = 0;
  bool removed_any = false;
  for (const char32_t c : code_points(text_)) {
    if (keep(c)) {
      kept.push_back({c, 0});
    } else if (kept.empty()) {
      ++removed_before;
    } else {
      --kept.back().change;
      removed_any = true;
    }
  }
  if (removed_before > 0 || removed_any) {
    transform(kept, removed_before);
  }
}

}  // namespace reprise::text
