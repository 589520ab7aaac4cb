// Vocabulary: construction and lookup.
#include "text/models/vocabulary.h"

#include <c10/util/Exception.h>

#include <array>
#include <cstdio>

namespace reprise::text {

Vocabulary::Vocabulary(const JsonFields& model) {
  const JsonFields vocabulary = model.object("vocab");
  const Json& entries = model.value("vocab");
  ids_.reserve(entries.size());
  tokens_.reserve(entries.size());
  for (const auto& [token, id] : entries.items()) {
    const bool fits = id.is_number_unsigned() && id.get<uint64_t>() <= uint64_t{kLargestId};
    if (!fits) {
      vocabulary.refuse(
          "\"" + token + "\"", "an id from 0 to " + std::to_string(kLargestId), describe(id));
    }
    if (this->token(id.get<int64_t>()) != nullptr) {
      vocabulary.refuse("\"" + token + "\"",
                        "an id of its own",
                        describe(id) + ", which is \"" + *this->token(id.get<int64_t>()) + "\"");
    }
    add(token, id.get<TokenId>());
  }
}

void Vocabulary::add(std::string token, TokenId id) {
  if (id >= tokens_.size()) {
    tokens_.resize(id + size_t{1}, nullptr);
  }
  const auto [place, is_new] = ids_.insert_or_assign(std::move(token), id);
  tokens_[id] = &place->first;
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

TokenId Vocabulary::unknown_id(const std::string& unknown_token) const {
  const auto id = find(unknown_token);
  TORCH_CHECK(id,
              "[tokenizer] the text has a word that is not in the vocabulary, and neither is the "
              "unk_token \"",
              unknown_token,
              "\"");
  return *id;
}

const std::string* Vocabulary::token(int64_t id) const {
  return id >= 0 && id < end() ? tokens_[static_cast<size_t>(id)] : nullptr;
}

std::string byte_token(unsigned char byte) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "<0x%02X>", static_cast<unsigned>(byte));
  return text.data();
}

}  // namespace reprise::text
