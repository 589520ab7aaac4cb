// WordPiece: the longest token that a piece begins with, then the longest that the rest begins
// with, and so on. A piece that cannot be covered this way is one unknown token.
#include "text/models/token_model.h"
#include "text/unicode/utf8.h"

#include <algorithm>
#include <limits>

namespace reprise::text {
namespace {

class WordPiece final : public TokenModel {
 public:
  explicit WordPiece(const JsonFields& fields)
      : vocabulary_(fields),
        unknown_(fields.string("unk_token")),
        prefix_(fields.string("continuing_subword_prefix")),
        longest_word_(static_cast<size_t>(
            fields.integer("max_input_chars_per_word", 0, std::numeric_limits<int32_t>::max()))) {
    for (int64_t id = 0; id < vocabulary_.end(); ++id) {
      if (const std::string* token = vocabulary_.token(id)) {
        longest_token_ = std::max(longest_token_, token->size());
      }
    }
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override {
    const auto characters = static_cast<size_t>(std::count_if(
        piece.begin(), piece.end(), [](char byte) { return !is_continuation(byte); }));
    const size_t before = tokens.size();
    bool fits = characters <= longest_word_;
    for (size_t at = 0; fits && at < piece.size();) {
      const auto token = longest_at(piece, at);
      fits = token.has_value();
      if (fits) {
        tokens.push_back(*token);
        at = token->end;
      }
    }
    if (!fits) {
      tokens.resize(before);
      tokens.push_back({vocabulary_.unknown_id(unknown_), 0, piece.size()});
    }
  }

 private:
  std::optional<ModelToken> longest_at(std::string_view piece, size_t begin) const {
    std::string candidate;
    size_t end = std::min(piece.size(), begin + longest_token_);
    for (; end > begin; --end) {
      if (end < piece.size() && is_continuation(piece[end])) {
        continue;
      }
      candidate = begin > 0 ? prefix_ : "";
      candidate += piece.substr(begin, end - begin);
      if (const auto id = vocabulary_.find(candidate)) {
        return ModelToken{*id, begin, end};
      }
    }
    return std::nullopt;
  }

  Vocabulary vocabulary_;
  std::string unknown_, prefix_;
  size_t longest_word_;
  size_t longest_token_ = 0;
};

}  // namespace

std::unique_ptr<const TokenModel> make_word_piece_model(const JsonFields& fields) {
  return std::make_unique<WordPiece>(fields);
}

}  // namespace reprise::text
