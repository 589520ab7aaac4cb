// The third stage of a tokenizer: pieces of text to tokens (tokenizer.json: "model").
#pragma once

#include "text/models/vocabulary.h"
#include "text/tokenizer/json_fields.h"

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace reprise::text {

/// A token and the bytes of the piece that it covers.
struct ModelToken {
  TokenId id;
  size_t begin, end;
};

/// Immutable; may be shared by threads.
class TokenModel {
 public:
  TokenModel() = default;
  virtual ~TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;

  /// Appends the tokens of `piece` to `tokens`.
  virtual void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const = 0;
  /// Where `piece`, which has more than `least` bytes, can be cut: at `least` bytes or after, so
  /// that tokenizing both parts gives the tokens of the whole. Its size if nowhere.
  virtual size_t cut(std::string_view piece, size_t /*least*/) const { return piece.size(); }
  virtual const Vocabulary& vocabulary() const = 0;
};

/// Throws c10::Error for an unsupported type or option.
std::unique_ptr<const TokenModel> make_token_model(const JsonFields& fields);

std::unique_ptr<const TokenModel> make_bpe_model(const JsonFields& fields);
std::unique_ptr<const TokenModel> make_unigram_model(const JsonFields& fields);
std::unique_ptr<const TokenModel> make_word_level_model(const JsonFields& fields);
std::unique_ptr<const TokenModel> make_word_piece_model(const JsonFields& fields);

}  // namespace reprise::text
