// Tokens by string and by id. Both strings and ids are unique.
#pragma once

#include "text/tokenizer/json_fields.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace reprise::text {

/// Allows lookup by string_view without constructing a string.
struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <typename Value>
using StringMap = std::unordered_map<std::string, Value, StringHash, std::equal_to<>>;

using TokenId = uint32_t;

class Vocabulary {
 public:
  /// Far above any real vocabulary, and small enough for an array indexed by id.
  static constexpr int64_t kLargestId = (int64_t{1} << 22) - 1;

  Vocabulary() = default;
  /// Reads {"token": id, ...}. Throws c10::Error naming the token whose id is invalid.
  explicit Vocabulary(const JsonFields& model);

  void add(std::string token, TokenId id);

  size_t count() const { return ids_.size(); }
  int64_t end() const { return static_cast<int64_t>(tokens_.size()); }  ///< largest id + 1

  std::optional<TokenId> find(std::string_view token) const;
  /// The id of a model's unk_token. Like Hugging Face's library, called only when a text needs it:
  /// throws if the vocabulary lacks the token.
  TokenId unknown_id(const std::string& unknown_token) const;
  /// Null if no token has this id.
  const std::string* token(int64_t id) const;

 private:
  StringMap<TokenId> ids_;
  std::vector<const std::string*> tokens_;  // point to the keys of ids_, whose addresses are stable
};

/// "<0x0A>": the byte-fallback token of a byte.
std::string byte_token(unsigned char byte);

}  // namespace reprise::text
