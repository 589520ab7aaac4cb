// A text cut into pieces: what pre-tokenizers work on and what the model turns into tokens.
// Invariant: pieces are ranges of `text`, none is empty, and they stand in the order of the text.
#pragma once

#include "text/aligned_text.h"
#include "text/regex.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace reprise::detail {

struct Piece {
  static constexpr int64_t kNoToken = -1;

  size_t begin, end;
  int64_t token = kNoToken;  // of an added token: no stage looks inside

  bool is_token() const { return token != kNoToken; }
};

/// What becomes of the matches when a piece is split by them.
enum class SplitBehavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

class PreTokenized {
 public:
  AlignedText text;
  std::vector<Piece> pieces;

  std::string_view view(const Piece& piece) const {
    return text.text().substr(piece.begin, piece.end - piece.begin);
  }

  /// Splits each piece that is not a token. `find` gives the matches in a piece, ascending and
  /// disjoint; with `invert`, what is between them counts as match.
  void split(const std::function<Ranges(std::string_view)>& find,
             SplitBehavior behavior,
             bool invert = false);

  /// Splits with each character that fits as a match of its own.
  void split_characters(const std::function<bool(char32_t)>& fits, SplitBehavior behavior);

  /// Rewrites each piece that is not a token: `write` appends its new text.
  void rewrite(const std::function<void(AlignedText& to, const Piece& piece)>& write);
};

}  // namespace reprise::detail
