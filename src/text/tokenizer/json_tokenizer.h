// The tokenizer of a tokenizer.json: added tokens, normalizer, pre-tokenizer, model, post-processor
// and decoder.
#pragma once

#include <reprise/text/tokenizer.h>

#include "text/models/token_model.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/tokenizer_config.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise::text {

class JsonTokenizer final : public Tokenizer {
 public:
  /// Throws c10::Error with `source`, the field and its value.
  JsonTokenizer(const Json& tokenizer, const std::string& source, const TokenizerConfig& config);

  Encoding encode(std::string_view text, const EncodeOptions& options) const override;
  std::string decode(std::span<const int64_t> ids, bool skip_special_tokens) const override;
  int64_t size() const override;
  std::optional<int64_t> id_of(std::string_view token) const override;
  std::optional<std::string> token_of(int64_t id) const override;
  bool is_special(int64_t id) const override;

 private:
  enum class Direction { Left, Right };
  struct Truncation {
    size_t max_length;
    Direction direction;
    bool only_second;  // OnlySecond, which cannot truncate a single text
  };

  void add_tokens(const JsonFields& fields, const TokenizerConfig& config);
  static std::optional<Truncation> read_truncation(const JsonFields& fields);
  std::vector<EncodedToken> tokenize(const PreTokenized& pieces) const;
  TokenIds encode_ids(std::string_view text, const EncodeOptions& options) const;
  bool needs_origins(size_t first_step) const;
  bool run_steps(size_t step, PreTokenized& text, const PieceGroups& groups) const;
  void append_ids(std::string_view piece,
                  size_t wanted,
                  std::vector<ModelToken>& tokens,
                  TokenIds& ids) const;
  template <class Token>
  void truncate(std::vector<Token>& tokens, const EncodeOptions& options) const;
  TokenIds with_special_tokens(TokenIds ids, const EncodeOptions& options) const;

  std::unique_ptr<const Normalizer> normalizer_;
  std::unique_ptr<const PreTokenizer> pre_tokenizer_;
  std::vector<PreTokenizerStep> steps_;  // of pre_tokenizer_
  std::unique_ptr<const TokenModel> model_;
  std::unique_ptr<const PostProcessor> post_processor_;
  std::unique_ptr<const Decoder> decoder_;
  std::optional<Truncation> truncation_;
  AddedTokens added_;
};

}  // namespace reprise::text
