// The third stage: turning one piece of text into tokens (tokenizer.json: "model").
#pragma once

#include "text/json_fields.h"
#include "text/vocabulary.h"

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace reprise::detail {

/// A token and the bytes of the piece that it stands for.
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
  virtual const Vocabulary& vocabulary() const = 0;
};

/// Throws c10::Error naming a type or an option that we do not have.
std::unique_ptr<const TokenModel> make_token_model(const JsonFields& fields);

std::unique_ptr<const TokenModel> make_bpe_model(const JsonFields& fields);
std::unique_ptr<const TokenModel> make_unigram_model(const JsonFields& fields);
std::unique_ptr<const TokenModel> make_word_level_model(const JsonFields& fields);
std::unique_ptr<const TokenModel> make_word_piece_model(const JsonFields& fields);

}  // namespace reprise::detail
