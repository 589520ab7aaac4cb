// Byte-pair encoding: characters to tokens, then merges. Words repeat, so results are cached.
#include "text/models/bpe_merges.h"
#include "text/models/token_model.h"
#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <mutex>
#include <unordered_set>
#include <utility>

namespace reprise::text {
namespace {

/// Thread-local cache of words and their symbols, for one model at a time. Threads share models
/// without a lock, and a destroyed model leaves no entries behind.
class WordCache {
 public:
  static constexpr size_t kLongestWord = 256;
  static constexpr size_t kMaxWords = 1 << 16;

  /// The cached symbols of `word`; a new entry is empty.
  std::vector<BpeSymbol>& entry(uint64_t model, std::string_view word) {
    if (model_ != model || words_.size() >= kMaxWords) {
      words_.clear();
      model_ = model;
    }
    const auto found = words_.find(word);
    return found != words_.end() ? found->second
                                 : words_.try_emplace(std::string(word)).first->second;
  }

 private:
  uint64_t model_ = 0;
  StringMap<std::vector<BpeSymbol>> words_;
};

class BpeModel final : public TokenModel {
 public:
  explicit BpeModel(const JsonFields& fields)
      : vocabulary_(fields),
        prefix_(fields.optional_string("continuing_subword_prefix").value_or("")),
        suffix_(fields.optional_string("end_of_word_suffix").value_or("")),
        fuse_unknown_(fields.boolean("fuse_unk", false)),
        ignore_merges_(fields.boolean("ignore_merges", false)),
        serial_(next_serial()) {
    if (fields.has("dropout") && fields.value("dropout") != 0.0) {
      fields.refuse(
          "dropout", "null, because ids must be deterministic", describe(fields.value("dropout")));
    }
    if (const auto unknown = fields.optional_string("unk_token")) {
      unknown_ = vocabulary_.find(*unknown);
      has_unknown_ = true;
      unknown_token_ = *unknown;
    }
    if (fields.boolean("byte_fallback", false)) {
      byte_fallback_ = true;
      for (size_t byte = 0; byte < byte_tokens_.size(); ++byte) {
        byte_tokens_[byte] = vocabulary_.find(byte_token(static_cast<unsigned char>(byte)));
      }
    }
    read_merges(fields);
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void tokenize(std::string_view piece, std::vector<ModelToken>& tokens) const override {
    if (ignore_merges_) {
      if (const auto id = vocabulary_.find(piece)) {
        tokens.push_back({*id, 0, piece.size()});
        return;
      }
    }
    if (piece.size() > WordCache::kLongestWord) {
      emit(merged(piece), tokens);
      return;
    }
    thread_local WordCache cache;
    std::vector<BpeSymbol>& word = cache.entry(serial_, piece);
    if (word.empty()) {
      word = merged(piece);
    }
    emit(word, tokens);
  }

  size_t cut(std::string_view piece, size_t least) const override;

 private:
  using CharacterPairs = std::unordered_set<uint64_t>;

  static uint64_t pair_of(char32_t left, char32_t right) { return (uint64_t{left} << 32) | right; }
  /// All (last of the left token, first of the right) of merges.
  const CharacterPairs& merging_pairs() const;

  static uint64_t next_serial() {
    static std::atomic<uint64_t> last{0};
    return ++last;
  }

  static void emit(const std::vector<BpeSymbol>& word, std::vector<ModelToken>& tokens) {
    size_t at = 0;
    for (const BpeSymbol& symbol : word) {
      tokens.push_back({symbol.id, at, at + symbol.length});
      at += symbol.length;
    }
  }

  void read_merges(const JsonFields& fields);
  std::vector<BpeSymbol> merged(std::string_view word) const;
  bool add_bytes(std::string_view character, std::vector<BpeSymbol>& word) const;

  Vocabulary vocabulary_;
  BpeMerges merges_;
  std::string prefix_, suffix_;
  bool fuse_unknown_, ignore_merges_;
  bool byte_fallback_ = false;
  bool has_unknown_ = false;
  std::string unknown_token_;
  std::optional<TokenId> unknown_;
  std::array<std::optional<TokenId>, 256> byte_tokens_;
  uint64_t serial_;
  mutable std::once_flag has_pairs_;
  mutable CharacterPairs pairs_;  // of merging_pairs(), which only long pieces need
};

/// Accepts "a b" and ["a", "b"].
std::pair<std::string, std::string> read_pair(const JsonFields& fields,
                                              const Json& merge,
                                              size_t index) {
  const auto refuse = [&]() {
    fields.refuse("merges[" + std::to_string(index) + "]",
                  "\"left right\" or [\"left\", \"right\"]",
                  describe(merge));
  };
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (!merge.is_string()) {
    refuse();
  }
  const auto& text = merge.get_ref<const std::string&>();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
    refuse();
  }
  return {text.substr(0, space), text.substr(space + 1)};
}

void BpeModel::read_merges(const JsonFields& fields) {
  const Json& merges = fields.array("merges");
  merges_.reserve(merges.size());
  uint32_t rank = 0;
  for (size_t i = 0; i < merges.size(); ++i) {
    const Json& merge = merges[i];
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) {
      continue;
    }
    const auto [left, right] = read_pair(fields, merge, i);
    const auto id_of = [&](const std::string& token) {
      const auto id = vocabulary_.find(token);
      if (!id) {
        fields.refuse("merges[" + std::to_string(i) + "]",
                      "tokens of the vocabulary",
                      "\"" + token + "\", which is not in it");
      }
      return *id;
    };
    const size_t prefix = std::min(prefix_.size(), right.size());
    const TokenId result = id_of(left + right.substr(prefix));
    merges_.add(id_of(left), id_of(right), {rank++, result});
  }
}

const BpeModel::CharacterPairs& BpeModel::merging_pairs() const {
  std::call_once(has_pairs_, [this] {
    merges_.for_each([this](TokenId left, TokenId right) {
      const std::string& before = *vocabulary_.token(left);
      const std::string& after = *vocabulary_.token(right);
      if (!before.empty() && !after.empty()) {
        size_t end = before.size();
        size_t begin = 0;
        pairs_.insert(pair_of(previous_code_point(before, end), next_code_point(after, begin)));
      }
    });
  });
  return pairs_;
}

/// Between two characters that are tokens, a merge can only happen if some merge joins a token that
/// ends with the first and one that begins with the second. Where there is none, nothing that is
/// left of the place has an influence on what is right of it.
size_t BpeModel::cut(std::string_view piece, size_t least) const {
  if (ignore_merges_ || !prefix_.empty() || !suffix_.empty()) {
    return piece.size();
  }
  const CharacterPairs& pairs = merging_pairs();
  size_t at = least;
  while (at < piece.size() && is_continuation(piece[at])) {
    ++at;
  }
  while (at < piece.size()) {
    size_t begin = at;
    size_t end = at;
    const char32_t left = previous_code_point(piece, begin);
    const char32_t right = next_code_point(piece, end);
    if (!pairs.contains(pair_of(left, right)) &&
        vocabulary_.find(piece.substr(begin, at - begin)) &&
        vocabulary_.find(piece.substr(at, end - at))) {
      return at;
    }
    at = end;
  }
  return piece.size();
}

/// Byte fallback: appends the byte tokens of a character, if the vocabulary has all of them.
bool BpeModel::add_bytes(std::string_view character, std::vector<BpeSymbol>& word) const {
  const size_t before = word.size();
  for (const char c : character) {
    const auto id = byte_tokens_[static_cast<unsigned char>(c)];
    if (!id) {
      word.resize(before);
      return false;
    }
    word.push_back({*id, 1});
  }
  return true;
}

std::vector<BpeSymbol> BpeModel::merged(std::string_view word) const {
  std::vector<BpeSymbol> symbols;
  symbols.reserve(word.size());
  std::optional<BpeSymbol> unknown;
  const auto flush_unknown = [&]() {
    if (unknown) {
      symbols.push_back(*unknown);
      unknown.reset();
    }
  };
  std::string decorated;
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    at += utf8_length(word[at]);
    std::string_view character = word.substr(begin, at - begin);
    const auto length = static_cast<uint32_t>(character.size());
    const bool has_prefix = begin > 0 && !prefix_.empty();
    const bool has_suffix = at == word.size() && !suffix_.empty();
    if (has_prefix || has_suffix) {
      decorated = has_prefix ? prefix_ : "";
      decorated += character;
      decorated += has_suffix ? suffix_ : "";
      character = decorated;
    }
    if (const auto id = vocabulary_.find(character)) {
      flush_unknown();
      symbols.push_back({*id, length});
      continue;
    }
    if (byte_fallback_ && add_bytes(character, symbols)) {
      continue;
    }
    if (!has_unknown_) {
      continue;  // the library drops unknown characters
    }
    TORCH_CHECK(
        unknown_,
        "[tokenizer] the text has a character that is not in the vocabulary, and neither is "
        "the unk_token \"",
        unknown_token_,
        "\"");
    if (unknown && fuse_unknown_) {
      unknown->length += length;
    } else {
      flush_unknown();
      unknown = {*unknown_, length};
    }
  }
  flush_unknown();
  merges_.apply(symbols);
  return symbols;
}

}  // namespace

std::unique_ptr<const TokenModel> make_bpe_model(const JsonFields& fields) {
  return std::make_unique<BpeModel>(fields);
}

}  // namespace reprise::text
