// tokenizer.ggml.*: the tokens, their kinds and the rules that merge them.
#pragma once

#include "io/gguf_fields.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reprise::detail {

/// The values are those of the format.
enum class TokenKind : int {
  Normal = 1,
  Unknown = 2,
  Control = 3,
  UserDefined = 4,
  Unused = 5,
  Byte = 6,
};

struct GgufVocabulary {
  std::vector<std::string> tokens;  ///< by id, valid UTF-8, all different
  std::vector<TokenKind> kinds;     ///< as many
};

GgufVocabulary read_vocabulary(const GgufFields& fields);

using Merges = std::vector<std::pair<std::string, std::string>>;

/// As the file lists them; both parts and the whole are tokens.
Merges read_merges(const GgufFields& fields, const GgufVocabulary& vocabulary);

/// From the scores of a sentencepiece model, which lists no merges: two tokens merge when their
/// concatenation is a token, the one of the highest score first.
Merges merges_from_scores(const GgufFields& fields, const GgufVocabulary& vocabulary);

}  // namespace reprise::detail
