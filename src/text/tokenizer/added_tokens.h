// Added tokens: strings that are searched in the text before all other stages and become one id
// each (tokenizer.json: "added_tokens"). Special ones can be skipped in decoding.
#pragma once

#include "text/models/vocabulary.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pre_tokenized.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace reprise::text {

struct AddedToken {
  std::string content;
  bool single_word = false;  ///< matches only if no word character is adjacent
  bool lstrip = false;       ///< also consumes white space before it
  bool rstrip = false;       ///< also consumes white space after it
  bool normalized = true;    ///< its normalized form is searched in the normalized text
  bool special = false;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Assigns ids like the library: that of the vocabulary if it has the string, else the next free
  /// one; each group starts after all ids so far. For a repeated token the later properties apply.
  /// `normalizer` may be null.
  AddedTokens(const std::vector<std::vector<AddedToken>>& groups,
              const Vocabulary& vocabulary,
              const Normalizer* normalizer);

  /// Normalizes `text` and splits it into added tokens and the text between them. Unless origins
  /// are needed, a text that is rewritten has none.
  PreTokenized extract(std::string_view text, bool needs_origins = true) const;

  std::optional<int64_t> find(std::string_view content) const;
  const AddedToken* token(int64_t id) const;
  /// The text of an added token for decoding: its normalized form, if that is what is searched.
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
  std::map<int64_t, std::string> normalized_;  // where they differ from the content
  StringMap<int64_t> ids_;
  std::unordered_set<std::string, StringHash, std::equal_to<>> special_;
  ByteTrie as_is_, as_normalized_;
};

/// Reads the content and the properties of one entry.
AddedToken read_added_token(const JsonFields& fields);

using TokensWithIds = std::vector<std::pair<int64_t, AddedToken>>;  ///< by id

/// tokenizer_config.json: "added_tokens_decoder": {"3": {"content": ..}, ..}
TokensWithIds read_added_tokens_decoder(const JsonFields& config);

/// added_tokens.json: {"<token>": 3, ..}. `file` is null if there is no such file.
TokensWithIds read_added_tokens_file(const Json& file, const std::string& source);

}  // namespace reprise::text
