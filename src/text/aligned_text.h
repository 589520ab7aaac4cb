// A text on its way through normalizers and pre-tokenizers, and where each of its bytes comes from.
// Invariant: origin is empty (the text is the original from byte `base` on, unchanged) or has one
// range per byte of text. All bytes of one character have the same origin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::detail {

/// Half-open byte range of the original text.
struct Origin {
  uint32_t begin, end;
};

/// One character of a rewritten text. `change` says how it relates to the characters it replaces:
/// 0 takes the place of the next one, 1 is inserted (and shares the origin of what stands before
/// it), -n takes the place of the next one and swallows n more.
struct Change {
  char32_t character;
  int change;
};

class AlignedText {
 public:
  AlignedText() = default;
  /// `text` as it stands at byte `base` of the original.
  explicit AlignedText(std::string_view text, size_t base = 0);

  std::string_view text() const { return text_; }
  size_t original_size() const { return original_size_; }
  bool empty() const { return text_.empty(); }

  /// What rewriting may make of a text. Rules come from files: a few of them, each doubling the
  /// text, would fill any memory.
  static size_t most_bytes(size_t original) { return 64 * original + (size_t{1} << 20); }

  /// Where the bytes [begin, end) come from. The range is not empty.
  std::pair<size_t, size_t> origin(size_t begin, size_t end) const;

  /// Rewrites the whole text, leaving out its first `removed` characters.
  void transform(const std::vector<Change>& changes, size_t removed = 0);

  /// Keeps the characters for which `keep` says so.
  template <typename Keep>
  void filter(Keep keep);

  void prepend(std::string_view prefix);  ///< the prefix has the origin of the first character

  /// Replaces the ranges (ascending, disjoint) by `content`, which has the origin of what ends
  /// there.
  void replace(const std::vector<std::pair<size_t, size_t>>& ranges, std::string_view content);

  /// An empty text from the same original, to append to.
  AlignedText empty_copy() const;
  /// Joins texts: appends the bytes [begin, end) of `other`.
  void append(const AlignedText& other, size_t begin, size_t end);
  /// Appends `text` with one origin.
  void append(std::string_view text, Origin origin);
  void reserve(size_t bytes);

 private:
  Origin byte_origin(size_t at) const;
  void materialize();  // makes origin_ explicit

  std::string text_;
  size_t base_ = 0;
  size_t original_size_ = 0;
  std::vector<Origin> origin_;
};

/// Throws c10::Error if `size` is more than AlignedText::most_bytes(original).
void check_growth(size_t original, size_t size);

/// The characters of `text`.
std::u32string code_points(std::string_view text);

template <typename Keep>
void AlignedText::filter(Keep keep) {
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

}  // namespace reprise::detail
