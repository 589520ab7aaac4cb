// train_bpe: text to a tokenizer.json with GPT-2's pipeline.
#include <reprise/text/tokenizer.h>

#include "text/bpe_trainer.h"
#include "text/byte_level.h"
#include "text/byte_trie.h"
#include "text/utf8.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace reprise {
namespace {

using detail::TokenId;

/// Counts words of what stands between special tokens: these are never part of a word.
detail::StringMap<int64_t> count_between(std::string_view text,
                                         const std::vector<std::string>& special_tokens) {
  std::vector<std::pair<std::string, detail::ByteTrie::Value>> entries;
  for (const std::string& token : special_tokens) {
    entries.emplace_back(token, 0);
  }
  const detail::ByteTrie trie(std::move(entries));
  detail::StringMap<int64_t> counts;
  size_t done = 0;
  const auto take = [&](size_t end) {
    for (auto& [word, count] : detail::count_words(text.substr(done, end - done))) {
      counts[std::move(word)] += count;
    }
  };
  for (size_t at = 0; at < text.size();) {
    size_t length = 0;
    trie.prefixes(text.substr(at),
                  [&](size_t covered, detail::ByteTrie::Value) { length = covered; });
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

/// The parts that are the same for every tokenizer of this kind.
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
  detail::check_utf8(text, "training text");
  const auto fixed = static_cast<int64_t>(options.special_tokens.size()) + 256;
  TORCH_CHECK(options.vocabulary >= fixed && options.vocabulary <= detail::Vocabulary::kLargestId,
              "[tokenizer] training: vocabulary: expected from ",
              fixed,
              " (256 bytes and the special tokens) to ",
              detail::Vocabulary::kLargestId,
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
    detail::check_utf8(name, "training: a special token");
  }
}

}  // namespace

std::string train_bpe(std::string_view text, const BpeTraining& options) {
  check_options(text, options);
  std::vector<std::string> tokens = options.special_tokens;
  const auto first_byte = static_cast<TokenId>(tokens.size());
  for (const std::string_view character : detail::byte_level_alphabet()) {
    tokens.emplace_back(character);
  }
  std::vector<detail::CountedWord> words;
  for (const auto& [word, count] : count_between(text, options.special_tokens)) {
    detail::CountedWord& counted = words.emplace_back(detail::CountedWord{{}, count});
    counted.symbols.reserve(word.size());
    for (const char byte : word) {
      counted.symbols.push_back(first_byte + static_cast<unsigned char>(byte));
    }
  }
  Json merges = Json::array();
  for (const detail::LearnedMerge& merge :
       detail::learn_merges(std::move(words),
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
