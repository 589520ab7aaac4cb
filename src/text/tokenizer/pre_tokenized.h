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

class PreTokenized;

/// Where the results of a step go: `use` gets them in groups of about so many bytes, in order. It
/// returns false to get no more.
struct PieceGroups {
  size_t bytes;
  bool needs_origins;  ///< of the text of the groups
  std::function<bool(PreTokenized& group)> use;
};

class PreTokenized {
 public:
  using Find = std::function<void(std::string_view, const VisitRange&)>;

  NormalizedString text;
  std::vector<Piece> pieces;

  std::string_view view(const Piece& piece) const {
    return text.text().substr(piece.begin, piece.end - piece.begin);
  }

  /// Splits each piece that is not a token. `find` visits the matches in a piece, ascending and
  /// disjoint. With `invert`, the text between matches counts as the match. Returns false if no
  /// more is wanted.
  bool split(const Find& find,
             SplitBehavior behavior,
             const PieceGroups& groups,
             bool invert = false);

  /// Splits with every character that fits as a separate match.
  bool split_characters(const std::function<bool(char32_t)>& fits,
                        SplitBehavior behavior,
                        const PieceGroups& groups);

  /// Rewrites each piece that is not a token: `write` appends its new text to `to`.
  bool rewrite(const std::function<void(NormalizedString& to, const Piece& piece)>& write,
               const PieceGroups& groups);

  /// Hands out all pieces.
  bool hand_out(const PieceGroups& groups);

 private:
  PreTokenized group(std::vector<Piece> of_it) const;
};

}  // namespace reprise::text
