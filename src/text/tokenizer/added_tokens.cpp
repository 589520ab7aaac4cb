// Finds added tokens: the leftmost match, and the longest among those.
#include "text/tokenizer/added_tokens.h"

#include "text/unicode/unicode.h"
#include "text/unicode/utf8.h"

#include <algorithm>
#include <utility>

namespace reprise::text {
namespace {

bool touches_word(std::string_view text, size_t begin, size_t end) {
  size_t before = begin;
  size_t after = end;
  return (begin > 0 && is_word_character(previous_code_point(text, before))) ||
         (end < text.size() && is_word_character(next_code_point(text, after)));
}

size_t strip_left(std::string_view text, size_t begin) {
  while (begin > 0) {
    size_t before = begin;
    if (!is_white_space(previous_code_point(text, before))) {
      break;
    }
    begin = before;
  }
  return begin;
}

size_t strip_right(std::string_view text, size_t end) {
  while (end < text.size()) {
    size_t after = end;
    if (!is_white_space(next_code_point(text, after))) {
      break;
    }
    end = after;
  }
  return end;
}

/// The next free id, after the vocabulary and the added tokens so far.
int64_t first_free(const Vocabulary& vocabulary, const std::map<int64_t, AddedToken>& tokens) {
  const auto count = static_cast<int64_t>(vocabulary.count());
  return tokens.empty() ? count : std::max(count, tokens.rbegin()->first + 1);
}

bool has_smaller_id(const TokensWithIds::value_type& a, const TokensWithIds::value_type& b) {
  return a.first < b.first;
}

}  // namespace

void AddedTokens::add(const std::vector<AddedToken>& tokens, const Vocabulary& vocabulary) {
  int64_t next = first_free(vocabulary, tokens_);
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) {
      continue;
    }
    int64_t id = 0;
    if (const auto known = find(token.content)) {
      id = *known;
    } else if (const auto in_vocabulary = vocabulary.find(token.content)) {
      id = *in_vocabulary;
    } else {
      id = next++;
    }
    normalized_.erase(id);
    if (token.normalized && normalizer_ != nullptr) {
      NormalizedString content(token.content);
      normalizer_->apply(content);
      if (content.text() != token.content) {
        normalized_[id] = content.text();
      }
    }
    ids_[token.content] = id;
    tokens_[id] = token;
    if (token.special) {
      special_.insert(token.content);
    }
  }
}

AddedTokens::AddedTokens(const std::vector<std::vector<AddedToken>>& groups,
                         const Vocabulary& vocabulary,
                         const Normalizer* normalizer)
    : normalizer_(normalizer) {
  for (const std::vector<AddedToken>& group : groups) {
    add(group, vocabulary);
  }
  std::vector<std::pair<std::string, ByteTrie::Value>> plain;
  std::vector<std::pair<std::string, ByteTrie::Value>> normalized;
  for (const auto& [id, token] : tokens_) {
    const auto rewritten = normalized_.find(id);
    auto& entries = token.normalized ? normalized : plain;
    entries.emplace_back(rewritten != normalized_.end() ? rewritten->second : token.content,
                         static_cast<ByteTrie::Value>(id));
  }
  as_is_ = ByteTrie(std::move(plain));
  as_normalized_ = ByteTrie(std::move(normalized));
}

std::optional<int64_t> AddedTokens::find(std::string_view content) const {
  const auto found = ids_.find(content);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const AddedToken* AddedTokens::token(int64_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

const std::string* AddedTokens::decoded(int64_t id) const {
  if (const auto found = normalized_.find(id); found != normalized_.end()) {
    return &found->second;
  }
  const AddedToken* added = token(id);
  return added != nullptr ? &added->content : nullptr;
}

std::vector<AddedTokens::Found> AddedTokens::cut(std::string_view text,
                                                 const ByteTrie& trie) const {
  std::vector<Found> parts;
  size_t done = 0;
  for (size_t at = 0; !trie.empty() && at < text.size();) {
    size_t length = 0;
    int64_t id = Piece::kNoToken;
    trie.prefixes(text.substr(at), [&](size_t covered, ByteTrie::Value value) {
      length = covered;
      id = value;
    });
    if (length == 0) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + length;
    at = end;
    const AddedToken& added = tokens_.at(id);
    if (added.single_word && touches_word(text, begin, end)) {
      continue;
    }
    if (added.lstrip) {
      begin =
          std::max(strip_left(text, begin), done);  // the previous token may have consumed spaces
    }
    if (added.rstrip) {
      end = strip_right(text, end);
    }
    if (done < begin) {
      parts.push_back({done, begin, Piece::kNoToken});
    }
    parts.push_back({begin, end, id});
    done = end;
  }
  if (done < text.size()) {
    parts.push_back({done, text.size(), Piece::kNoToken});
  }
  return parts;
}

PreTokenized AddedTokens::extract(std::string_view text, bool needs_origins) const {
  PreTokenized result;
  const std::vector<Found> parts = cut(text, as_is_);
  const bool untouched = parts.size() == 1 && parts[0].token == Piece::kNoToken &&
                         normalizer_ == nullptr && as_normalized_.empty();
  if (untouched) {
    result.text = NormalizedString(text);
    result.pieces.push_back({0, text.size()});
    return result;
  }
  result.text = NormalizedString::empty_of(text.size());
  if (!needs_origins) {
    result.text.stop_tracking();
  }
  result.text.reserve(text.size());
  const auto append = [&](const NormalizedString& from, const Found& part) {
    const size_t begin = result.text.text().size();
    result.text.append(from, part.begin, part.end);
    if (result.text.text().size() > begin) {
      result.pieces.push_back({begin, result.text.text().size(), part.token});
    }
  };
  for (const Found& part : parts) {
    NormalizedString inside(text.substr(part.begin, part.end - part.begin), part.begin);
    if (!needs_origins) {
      inside.stop_tracking();
    }
    if (part.token != Piece::kNoToken) {
      append(inside, {0, inside.text().size(), part.token});
      continue;
    }
    if (normalizer_ != nullptr) {
      normalizer_->apply(inside);
    }
    const std::vector<Found> inner_parts = cut(inside.text(), as_normalized_);
    if (parts.size() == 1 && inner_parts.size() == 1) {  // all of it: no copy
      result.pieces.push_back({0, inside.text().size(), inner_parts[0].token});
      result.text = std::move(inside);
      break;
    }
    for (const Found& inner : inner_parts) {
      append(inside, inner);
    }
  }
  return result;
}

AddedToken read_added_token(const JsonFields& fields) {
  AddedToken token;
  token.content = fields.string("content");
  token.special = fields.boolean("special", false);
  token.single_word = fields.boolean("single_word", false);
  token.lstrip = fields.boolean("lstrip", false);
  token.rstrip = fields.boolean("rstrip", false);
  token.normalized = fields.boolean("normalized", !token.special);
  return token;
}

TokensWithIds read_added_tokens_decoder(const JsonFields& config) {
  TokensWithIds tokens;
  const JsonFields entries = config.object("added_tokens_decoder");
  for (const auto& [key, value] : config.value("added_tokens_decoder").items()) {
    const bool is_id =
        !key.empty() && key.size() <= 8 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!is_id) {
      entries.refuse("\"" + key + "\"", "an id as key", "another string");
    }
    const JsonFields token(value, entries.source(), entries.path() + "." + key);
    tokens.emplace_back(std::stoll(key), read_added_token(token));
  }
  std::stable_sort(tokens.begin(), tokens.end(), has_smaller_id);
  return tokens;
}

TokensWithIds read_added_tokens_file(const Json& file, const std::string& source) {
  TokensWithIds tokens;
  if (file.is_null()) {
    return tokens;
  }
  const JsonFields entries(file, source, "");
  constexpr auto kLargest = static_cast<uint64_t>(Vocabulary::kLargestId);
  for (const auto& [content, id] : file.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > kLargest) {
      entries.refuse(content, "an id from 0 to " + std::to_string(kLargest), describe(id));
    }
    tokens.emplace_back(id.get<int64_t>(), AddedToken{.content = content});
  }
  std::stable_sort(tokens.begin(), tokens.end(), has_smaller_id);
  return tokens;
}

}  // namespace reprise::text
