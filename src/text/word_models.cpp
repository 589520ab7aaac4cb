// WordLevel (a piece is a token or unknown) and WordPiece (the longest token first, then on), and
// which type of model is made by whom.
#include "text/token_model.h"
#include "text/utf8.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

namespace reprise::detail {
namespace {

/// The unknown token, needed only when a text asks for it: as in the library.
TokenId unknown_id(const Vocabulary& vocabulary, const std::string& token) {
  const auto id = vocabulary.find(token);
  TORCH_CHECK(id,
              "[tokenizer] text has a word that the vocabulary lacks, and so does it lack the "
              "unk_token \"",
              token,
              "\"");
  return *id;
}

class WordLevel final : public TokenModel {
 public:
  explicit WordLevel(const JsonFields& fields)
      : vocabulary_(fields), unknown_(fields.string("unk_token")) {}
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override {
    const auto id = vocabulary_.find(piece);
    tokens.push_back({id ? *id : unknown_id(vocabulary_, unknown_), 0, piece.size()});
  }

 private:
  Vocabulary vocabulary_;
  std::string unknown_;
};

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
      tokens.push_back({unknown_id(vocabulary_, unknown_), 0, piece.size()});
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

std::unique_ptr<const TokenModel> make_word_level_model(const JsonFields& fields) {
  return std::make_unique<WordLevel>(fields);
}

std::unique_ptr<const TokenModel> make_word_piece_model(const JsonFields& fields) {
  return std::make_unique<WordPiece>(fields);
}

std::unique_ptr<const TokenModel> make_token_model(const JsonFields& fields) {
  // Files of older versions do not name a byte-pair model.
  const bool looks_like_bpe = !fields.has("type") && fields.has("merges");
  const std::string type = looks_like_bpe ? "BPE" : fields.string("type");
  if (type == "BPE") {
    return make_bpe_model(fields);
  }
  if (type == "Unigram") {
    return make_unigram_model(fields);
  }
  if (type == "WordLevel") {
    return make_word_level_model(fields);
  }
  if (type == "WordPiece") {
    return make_word_piece_model(fields);
  }
  fields.refuse("type", "BPE, Unigram, WordLevel or WordPiece", "\"" + type + "\"");
}

}  // namespace reprise::detail
