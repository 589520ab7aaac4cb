// What a client of the world's store and its server say to each other: a kind and some texts,
// behind the length of the whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::dist {

/// Requests, then answers. Set and MultiSet have no answer: a heartbeat must not wait for one.
enum class StoreMessageKind : uint8_t {
  Set,         ///< key, value
  MultiSet,    ///< key, value, key, value, ...
  Append,      ///< key, value -> Done
  CompareSet,  ///< key, expected, desired -> Done with the value
  MultiGet,    ///< keys -> Done with their values, or Missing
  Check,       ///< keys -> Done or Missing
  Add,         ///< key, number -> Done with the sum
  Delete,      ///< key -> Done or Missing
  Count,       ///< -> Done with the number of keys
  Done,
  Missing,
  Failed,  ///< the reason
};

struct StoreMessage {
  StoreMessageKind kind;
  std::vector<std::string> texts = {};
};

/// Longer ones are refused: a length is not trusted before memory is taken for it.
inline constexpr size_t kMaxMessageBytes = size_t{64} << 20;
inline constexpr size_t kLengthBytes = 4;

/// The message behind its length.
std::string encoded(const StoreMessage& message);
/// The number that these four bytes are.
size_t decoded_length(std::string_view bytes);
/// std::nullopt if the bytes are no message.
std::optional<StoreMessage> decoded(std::string_view bytes);

}  // namespace reprise::dist
