// Unigram: the most probable segmentation of a piece into tokens (Viterbi). Characters that no
// token covers become the unknown token, with a score below that of the worst token, or byte
// tokens.
#include "text/models/token_model.h"
#include "text/tokenizer/byte_trie.h"
#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace reprise::text {
namespace {

constexpr double kUnknownPenalty = 10.0;

class UnigramModel final : public TokenModel {
 public:
  explicit UnigramModel(const JsonFields& fields)
      : byte_fallback_(fields.boolean("byte_fallback", false)) {
    read_vocabulary(fields);
    if (fields.has("unk_id")) {
      const auto last = static_cast<int64_t>(scores_.size()) - 1;
      unknown_ = static_cast<TokenId>(fields.integer("unk_id", 0, last));
    }
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override {
    size_t end = piece.size();
    std::vector<std::pair<size_t, size_t>> parts;
    const std::vector<Best> best = viterbi(piece);
    bool unknown_run = false;
    while (end > 0) {
      const Best& node = best[end];
      const bool is_unknown = unknown_ && node.id == *unknown_;
      if (is_unknown && unknown_run) {
        parts.back().first = node.begin;  // adjacent unknown characters are fused
      } else {
        parts.emplace_back(node.begin, end);
      }
      unknown_run = is_unknown;
      end = node.begin;
    }
    std::reverse(parts.begin(), parts.end());
    for (const auto& [first, last] : parts) {
      emit(piece, first, last, tokens);
    }
  }

 private:
  /// The best segmentation that ends at a byte: its last token and where that token begins.
  struct Best {
    static constexpr size_t kNowhere = SIZE_MAX;
    size_t begin = kNowhere;
    double score = 0;
    TokenId id = 0;
  };

  void read_vocabulary(const JsonFields& fields) {
    const Json& entries = fields.array("vocab");
    std::vector<std::pair<std::string, ByteTrie::Value>> tokens;
    tokens.reserve(entries.size());
    scores_.reserve(entries.size());
    for (size_t i = 0; i < entries.size(); ++i) {
      const Json& entry = entries[i];
      const bool fits =
          entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
      if (!fits || i > size_t{Vocabulary::kLargestId}) {
        fields.refuse("vocab[" + std::to_string(i) + "]", "[\"token\", score]", describe(entry));
      }
      const auto id = static_cast<TokenId>(i);
      tokens.emplace_back(entry[0].get<std::string>(), id);
      vocabulary_.add(tokens.back().first, id);
      scores_.push_back(entry[1].get<double>());
    }
    trie_ = ByteTrie(std::move(tokens));
    worst_score_ = scores_.empty() ? 0 : *std::min_element(scores_.begin(), scores_.end());
  }

  std::vector<Best> viterbi(std::string_view piece) const {
    std::vector<Best> best(piece.size() + 1);
    const auto improve = [&](size_t begin, size_t end, double score, TokenId id) {
      if (best[end].begin == Best::kNowhere || score > best[end].score) {
        best[end] = {begin, score, id};
      }
    };
    for (size_t at = 0; at < piece.size();) {
      const size_t length = utf8_length(piece[at]);
      const double here = best[at].score;
      bool has_single = false;
      trie_.prefixes(piece.substr(at), [&](size_t covered, TokenId id) {
        improve(at, at + covered, here + scores_[id], id);
        has_single = has_single || covered == length;
      });
      if (!has_single) {
        TORCH_CHECK(
            unknown_,
            "[tokenizer] the text has a character that no token covers, and the model has no "
            "unk_id");
        improve(at, at + length, here + worst_score_ - kUnknownPenalty, *unknown_);
      }
      at += length;
    }
    return best;
  }

  void emit(std::string_view piece,
            size_t begin,
            size_t end,
            std::vector<ModelToken>& tokens) const {
    const std::string_view text = piece.substr(begin, end - begin);
    if (const auto id = vocabulary_.find(text)) {
      tokens.push_back({*id, begin, end});
      return;
    }
    if (byte_fallback_) {
      const size_t before = tokens.size();
      for (const char c : text) {
        if (const auto id = vocabulary_.find(byte_token(static_cast<unsigned char>(c)))) {
          tokens.push_back({*id, begin, end});
        }
      }
      if (tokens.size() == before + text.size()) {
        return;
      }
      tokens.resize(before);
    }
    TORCH_CHECK(unknown_, "[tokenizer] the model has no unk_id for \"", text, "\"");
    tokens.push_back({*unknown_, begin, end});
  }

  Vocabulary vocabulary_;
  ByteTrie trie_;
  std::vector<double> scores_;
  double worst_score_ = 0;
  std::optional<TokenId> unknown_;
  bool byte_fallback_;
};

}  // namespace

std::unique_ptr<const TokenModel> make_unigram_model(const JsonFields& fields) {
  return std::make_unique<UnigramModel>(fields);
}

}  // namespace reprise::text
