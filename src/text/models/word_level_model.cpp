// WordLevel: a whole piece is a token of the vocabulary, or the unknown token.
#include "text/models/token_model.h"

namespace reprise::text {
namespace {

class WordLevel final : public TokenModel {
 public:
  explicit WordLevel(const JsonFields& fields)
      : vocabulary_(fields), unknown_(fields.string("unk_token")) {}
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override {
    const auto id = vocabulary_.find(piece);
    tokens.push_back({id ? *id : vocabulary_.unknown_id(unknown_), 0, piece.size()});
  }

 private:
  Vocabulary vocabulary_;
  std::string unknown_;
};

}  // namespace

std::unique_ptr<const TokenModel> make_word_level_model(const JsonFields& fields) {
  return std::make_unique<WordLevel>(fields);
}

}  // namespace reprise::text
