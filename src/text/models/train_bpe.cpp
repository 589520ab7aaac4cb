// train_bpe(): trains on a text and writes a tokenizer.json with GPT-2's pipeline.
#include <reprise/text/tokenizer.h>

#include "text/models/bpe_trainer.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/byte_trie.h"
#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace reprise {
namespace {

using text::TokenId;

/// Counts the words between special tokens, which are never part of a word.
text::StringMap<int64_t> count_between(std::string_view text,
                                       const std::vector<std::string>& special_tokens) {
  std::vector<std::pair<std::string, text::ByteTrie::Value>> entries;
  for (const std::string& token : special_tokens) {
    entries.emplace_back(token, 0);
  }
  const text::ByteTrie trie(std::move(entries));
  text::StringMap<int64_t> counts;
  size_t done = 0;
  const auto take = [&](size_t end) {
    for (auto& [word, count] : text::count_words(text.substr(done, end - done))) {
      counts[std::move(word)] += count;
    }
  };
  for (size_t at = 0; at < text.size();) {
    size_t length = 0;
    trie.prefixes(text.substr(at),
                  [&](size_t covered, text::ByteTrie::Value) { length = covered; });
    if (length > 0) {
      take(at);
      done = at + length;
    }
    at += std::max<size_t>(length, 1);
  }
  take(text.size());
  return counts;
}

Json object(Json::object_t members) {
  return Json(std::move(members));
}

/// The ByteLevel section, which pre-tokenizer, post-processor and decoder share.
Json byte_level(bool trim_offsets) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", trim_offsets},
          {"use_regex", true}};
}

Json added_tokens(const std::vector<std::string>& special_tokens) {
  Json tokens = Json::array();
  for (size_t id = 0; id < special_tokens.size(); ++id) {
    tokens.push_back({{"id", id},
                      {"content", special_tokens[id]},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", true}});
  }
  return tokens;
}

void check_options(std::string_view text, const BpeTraining& options) {
  text::check_utf8(text, "training text");
  const auto fixed = static_cast<int64_t>(options.special_tokens.size()) + 256;
  TORCH_CHECK(options.vocabulary >= fixed && options.vocabulary <= text::Vocabulary::kLargestId,
              "[tokenizer] training: vocabulary: expected from ",
              fixed,
              " (256 bytes and the special tokens) to ",
              text::Vocabulary::kLargestId,
              ", found ",
              options.vocabulary);
  std::vector<std::string> names = options.special_tokens;
  std::sort(names.begin(), names.end());
  const bool unique = std::adjacent_find(names.begin(), names.end()) == names.end();
  const bool empty = std::find(names.begin(), names.end(), "") != names.end();
  TORCH_CHECK(unique && !empty,
              "[tokenizer] training: special tokens: expected different strings that are not "
              "empty, found ",
              empty ? "an empty one" : "one twice");
  for (const std::string& name : names) {
    text::check_utf8(name, "training: a special token");
  }
}

}  // namespace

std::string train_bpe(std::string_view text, const BpeTraining& options) {
  check_options(text, options);
  std::vector<std::string> tokens = options.special_tokens;
  const auto first_byte = static_cast<TokenId>(tokens.size());
  for (const std::string_view character : text::byte_level_alphabet()) {
    tokens.emplace_back(character);
  }
  std::vector<text::CountedWord> words;
  for (const auto& [word, count] : count_between(text, options.special_tokens)) {
    text::CountedWord& counted = words.emplace_back(text::CountedWord{{}, count});
    counted.symbols.reserve(word.size());
    for (const char byte : word) {
      counted.symbols.push_back(first_byte + static_cast<unsigned char>(byte));
    }
  }
  Json merges = Json::array();
  for (const text::LearnedMerge& merge :
       text::learn_merges(std::move(words),
                          static_cast<TokenId>(tokens.size()),
                          static_cast<size_t>(options.vocabulary) - tokens.size(),
                          options.min_frequency)) {
    merges.push_back({tokens[merge.left], tokens[merge.right]});
    tokens.push_back(tokens[merge.left] + tokens[merge.right]);
  }
  Json::object_t vocabulary;
  vocabulary.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    vocabulary.push_back({tokens[id], id});
  }
  const Json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", false},
                      {"vocab", object(std::move(vocabulary))},
                      {"merges", std::move(merges)}};
  const Json tokenizer = {{"version", "1.0"},
                          {"truncation", nullptr},
                          {"padding", nullptr},
                          {"added_tokens", added_tokens(options.special_tokens)},
                          {"normalizer", nullptr},
                          {"pre_tokenizer", byte_level(true)},
                          {"post_processor", byte_level(false)},
                          {"decoder", byte_level(true)},
                          {"model", model}};
  return tokenizer.dump(2) + "\n";
}

}  // namespace reprise
