// A tokenizer.json, put together: added tokens, normalizer, pre-tokenizer, model, post-processor,
// decoder.
#pragma once

#include <reprise/text/tokenizer.h>

#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_model.h"
#include "text/tokenizer_config.h"

#include <memory>
#include <optional>
#include <string>

namespace reprise::detail {

class JsonTokenizer final : public Tokenizer {
 public:
  /// Throws c10::Error naming `source`, the field and what it has.
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
    bool only_second;  // the strategy for pairs that leaves a single text alone, or refuses it
  };

  void add_tokens(const JsonFields& fields, const TokenizerConfig& config);
  static std::optional<Truncation> read_truncation(const JsonFields& fields);
  std::vector<EncodedToken> tokenize(const PreTokenized& pieces) const;
  void truncate(std::vector<EncodedToken>& tokens, const EncodeOptions& options) const;

  std::unique_ptr<const Normalizer> normalizer_;
  std::unique_ptr<const PreTokenizer> pre_tokenizer_;
  std::unique_ptr<const TokenModel> model_;
  std::unique_ptr<const PostProcessor> post_processor_;
  std::unique_ptr<const Decoder> decoder_;
  std::optional<Truncation> truncation_;
  AddedTokens added_;
};

}  // namespace reprise::detail
