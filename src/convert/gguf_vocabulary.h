// tokenizer.ggml.*: the tokens, their types and the merges.
#pragma once

#include "io/gguf/gguf_fields.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reprise::convert {

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
  std::vector<TokenKind> kinds;     ///< by id
};

GgufVocabulary read_vocabulary(const io::GgufFields& fields);

using Merges = std::vector<std::pair<std::string, std::string>>;

/// The merges that the file lists. Both parts and their concatenation are tokens.
Merges read_merges(const io::GgufFields& fields, const GgufVocabulary& vocabulary);

/// The merges of a sentencepiece model, given a score by id. Two tokens merge if their
/// concatenation is a token, and those with the highest score first.
Merges merges_by_score(const GgufVocabulary& vocabulary, const std::vector<double>& scores);

/// As llama.cpp's converter gives it; added tokens are never merged.
inline constexpr double kAddedScore = -1000;

/// The inverse, by id; see Note [Scores of merges]. Throws, with `where` in front, for merges that
/// no scores give.
std::vector<double> scores_of_merges(const GgufVocabulary& vocabulary,
                                     const Merges& merges,
                                     const std::string& where);

/// The merges of a sentencepiece model, which has scores instead.
Merges merges_from_scores(const io::GgufFields& fields, const GgufVocabulary& vocabulary);

}  // namespace reprise::convert
