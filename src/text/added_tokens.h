// Added tokens: strings that are found in the text before anything else and become one id
// (tokenizer.json: "added_tokens"). Special ones are left out of decoded text when asked.
#pragma once

#include "text/byte_trie.h"
#include "text/normalizer.h"
#include "text/pre_tokenized.h"
#include "text/vocabulary.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace reprise::detail {

struct AddedToken {
  std::string content;
  bool single_word = false;  ///< only where no word character touches it
  bool lstrip = false;       ///< takes white space before it along
  bool rstrip = false;       ///< and behind it
  bool normalized = true;    ///< is searched in the normalized text, itself normalized
  bool special = false;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Gives ids as the library does: the vocabulary's where it has the string, else the next one;
  /// each group begins behind all ids so far. A token that comes again gets the later properties.
  /// `normalizer` may be null.
  AddedTokens(const std::vector<std::vector<AddedToken>>& groups,
              const Vocabulary& vocabulary,
              const Normalizer* normalizer);

  /// Normalizes `text` and cuts it into added tokens and what is between them.
  PreTokenized extract(std::string_view text) const;

  std::optional<int64_t> find(std::string_view content) const;
  const AddedToken* token(int64_t id) const;
  /// What decoding sees of an added token: its normalized form, if it is searched by that.
  const std::string* decoded(int64_t id) const;
  bool is_special(std::string_view content) const { return special_.contains(content); }
  int64_t end() const { return tokens_.empty() ? 0 : tokens_.rbegin()->first + 1; }

 private:
  void add(const std::vector<AddedToken>& tokens, const Vocabulary& vocabulary);
  struct Found {
    size_t begin, end;
    int64_t token;
  };
  std::vector<Found> cut(std::string_view text, const ByteTrie& trie) const;

  const Normalizer* normalizer_ = nullptr;
  std::map<int64_t, AddedToken> tokens_;
  std::map<int64_t, std::string> normalized_;  // where it differs from the content
  StringMap<int64_t> ids_;
  std::unordered_set<std::string, StringHash, std::equal_to<>> special_;
  ByteTrie as_is_, as_normalized_;
};

/// Reads the six properties and the content of one entry.
AddedToken read_added_token(const JsonFields& fields);

using TokensWithIds = std::vector<std::pair<int64_t, AddedToken>>;  ///< by id

/// tokenizer_config.json: "added_tokens_decoder": {"3": {"content": ..}, ..}
TokensWithIds read_added_tokens_decoder(const JsonFields& config);

/// added_tokens.json: {"<token>": 3, ..}; null where there is no such file.
TokensWithIds read_added_tokens_file(const Json& file, const std::string& source);

}  // namespace reprise::detail
