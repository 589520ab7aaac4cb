// The vocabulary and merges of a GGUF file. Merges only use tokens of the vocabulary: Hugging
// Face's library refuses a tokenizer.json with any other.
#include "convert/gguf_vocabulary.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace reprise::convert {
namespace {

using io::GgufFields;

constexpr const char* kTokensKey = "tokenizer.ggml.tokens";
constexpr const char* kKindsKey = "tokenizer.ggml.token_type";
constexpr const char* kMergesKey = "tokenizer.ggml.merges";
constexpr const char* kScoresKey = "tokenizer.ggml.scores";
constexpr size_t kMaxPieceBytes = 1024;  // the number of ways to split a piece grows with it

bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

std::string found_size(size_t size) {
  return std::to_string(size);
}

std::vector<TokenKind> read_kinds(const GgufFields& fields, size_t tokens) {
  const auto numbers = fields.numbers(kKindsKey);
  if (!numbers) {
    return std::vector<TokenKind>(tokens, TokenKind::Normal);
  }
  if (numbers->size() != tokens) {
    fields.refuse(
        kKindsKey, found_size(tokens) + " kinds, one per token", found_size(numbers->size()));
  }
  std::vector<TokenKind> kinds;
  kinds.reserve(tokens);
  for (const double number : *numbers) {
    if (!(number >= 1 && number <= 6)) {
      fields.refuse(kKindsKey, "kinds from 1 to 6", std::to_string(number));
    }
    kinds.push_back(static_cast<TokenKind>(static_cast<int>(number)));
  }
  return kinds;
}

struct ScoredMerge {
  std::string_view left;
  std::string_view right;
  double score;
  double left_score;
  double right_score;
};

using Scores = std::unordered_map<std::string_view, double>;

/// Appends every split of `piece` into two other pieces.
void add_splits(std::vector<ScoredMerge>& merges,
                std::string_view piece,
                double score,
                const Scores& scores) {
  for (size_t i = 1; i < piece.size(); ++i) {
    if (continues_character(piece[i])) {
      continue;
    }
    const auto left = scores.find(piece.substr(0, i));
    const auto right = scores.find(piece.substr(i));
    if (left != scores.end() && right != scores.end()) {
      merges.push_back({left->first, right->first, score, left->second, right->second});
    }
  }
}

}  // namespace

GgufVocabulary read_vocabulary(const GgufFields& fields) {
  GgufVocabulary vocabulary;
  vocabulary.tokens = fields.required(fields.strings(kTokensKey), kTokensKey);
  vocabulary.kinds = read_kinds(fields, vocabulary.tokens.size());
  std::unordered_set<std::string_view> seen;
  seen.reserve(vocabulary.tokens.size());
  for (const std::string& token : vocabulary.tokens) {
    if (!seen.insert(token).second) {
      fields.refuse(kTokensKey, "tokens that are all different", "\"" + token + "\" twice");
    }
  }
  return vocabulary;
}

Merges read_merges(const GgufFields& fields, const GgufVocabulary& vocabulary) {
  const std::unordered_set<std::string_view> known(vocabulary.tokens.begin(),
                                                   vocabulary.tokens.end());
  const auto lines = fields.required(fields.strings(kMergesKey), kMergesKey);
  Merges merges;
  merges.reserve(lines.size());
  for (const std::string& line : lines) {
    const size_t space = line.find(' ', 1);  // a part has at least one character
    if (space == std::string::npos) {
      fields.refuse(kMergesKey, "two tokens with a space between them", "\"" + line + "\"");
    }
    std::string left = line.substr(0, space);
    std::string right = line.substr(space + 1);
    if (!known.contains(left) || !known.contains(right) || !known.contains(left + right)) {
      fields.refuse(kMergesKey, "two tokens that give a third", "\"" + line + "\"");
    }
    merges.emplace_back(std::move(left), std::move(right));
  }
  return merges;
}

Merges merges_by_score(const GgufVocabulary& vocabulary, const std::vector<double>& scores) {
  // Only normal pieces are made by merges. The others are matched whole or stand for a byte.
  Scores score_of;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (vocabulary.kinds[i] == TokenKind::Normal) {
      score_of.emplace(vocabulary.tokens[i], scores[i]);
    }
  }
  std::vector<ScoredMerge> found;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (vocabulary.kinds[i] == TokenKind::Normal) {
      add_splits(found, vocabulary.tokens[i], scores[i], score_of);
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const ScoredMerge& a, const ScoredMerge& b) {
    return std::tie(a.score, a.left_score, a.right_score) >
           std::tie(b.score, b.left_score, b.right_score);
  });
  Merges merges;
  merges.reserve(found.size());
  for (const ScoredMerge& merge : found) {
    merges.emplace_back(merge.left, merge.right);
  }
  return merges;
}

// Note [Scores of merges]
// llama.cpp merges two neighbours if their concatenation is a token, the one with the highest score
// first, and knows no merges. Merges that were made from a sentencepiece model follow that rule:
// then the score of a token is the place of its first merge. Others are refused.
std::vector<double> scores_of_merges(const GgufVocabulary& vocabulary,
                                     const Merges& merges,
                                     const std::string& where) {
  std::unordered_map<std::string, double> score_of;
  double least = 0;
  for (const auto& [left, right] : merges) {
    const auto [made, is_new] = score_of.emplace(left + right, least - 1);
    least -= is_new ? 1 : 0;
    TORCH_CHECK(made->second == least,
                where,
                "model.merges: those that make \"",
                left + right,
                "\" are not next to each other: not the merges of a sentencepiece model, which "
                "llama.cpp needs");
  }
  std::vector<double> scores(vocabulary.tokens.size(), kAddedScore);
  for (size_t id = 0; id < scores.size(); ++id) {
    const auto made = score_of.find(vocabulary.tokens[id]);
    if (made != score_of.end()) {
      scores[id] = made->second;
    } else if (vocabulary.kinds[id] == TokenKind::Normal) {
      scores[id] = least - 1 - static_cast<double>(id);  // below all merges
    }
  }
  const std::set<std::pair<std::string, std::string>> listed(merges.begin(), merges.end());
  for (const auto& [left, right] : merges_by_score(vocabulary, scores)) {
    TORCH_CHECK(listed.contains({left, right}),
                where,
                "model.merges: \"",
                left,
                "\" and \"",
                right,
                "\" are not merged, although their concatenation is a token: llama.cpp would");
  }
  return scores;
}

Merges merges_from_scores(const GgufFields& fields, const GgufVocabulary& vocabulary) {
  const auto scores = fields.required(fields.numbers(kScoresKey), kScoresKey);
  if (scores.size() != vocabulary.tokens.size()) {
    fields.refuse(kScoresKey,
                  found_size(vocabulary.tokens.size()) + " scores, one per token",
                  found_size(scores.size()));
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    if (vocabulary.kinds[i] == TokenKind::Normal && vocabulary.tokens[i].size() > kMaxPieceBytes) {
      fields.refuse(kTokensKey,
                    "pieces of at most " + std::to_string(kMaxPieceBytes) + " bytes",
                    std::to_string(vocabulary.tokens[i].size()));
    }
  }
  return merges_by_score(vocabulary, scores);
}

}  // namespace reprise::convert
