// A text split into pieces, which pre-tokenizers refine and the model tokenizes. Invariant: pieces
// are non-empty ranges of `text`, in order.
#pragma once

#include "text/tokenizer/normalized_string.h"
#include "text/unicode/regex.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace reprise::text {

struct Piece {
  static constexpr int64_t kNoToken = -1;

  size_t begin, end;
  int64_t token = kNoToken;  // id of an added token, which no stage splits

  bool is_token() const { return token != kNoToken; }
};

/// What happens to the matches when a piece is split.
enum class SplitBehavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

class PreTokenized {
 public:
  NormalizedString text;
  std::vector<Piece> pieces;

  std::string_view view(const Piece& piece) const {
    return text.text().substr(piece.begin, piece.end - piece.begin);
  }

  /// Splits each piece that is not a token. `find` returns the matches in a piece, ascending and
  /// disjoint. With `invert`, the text between matches counts as the match.
  void split(const std::function<Ranges(std::string_view)>& find,
             SplitBehavior behavior,
             bool invert = false);

  /// Splits with every character that fits as a separate match.
  void split_characters(const std::function<bool(char32_t)>& fits, SplitBehavior behavior);

  /// Rewrites each piece that is not a token: `write` appends its new text to `to`.
  void rewrite(const std::function<void(NormalizedString& to, const Piece& piece)>& write);
};

}  // namespace reprise::text
