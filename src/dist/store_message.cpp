#include "dist/store_message.h"

#include <c10/util/Exception.h>

namespace reprise::dist {

namespace {

void add_length(std::string& bytes, size_t length) {
  for (size_t i = 0; i < kLengthBytes; ++i) {
    bytes += static_cast<char>(length >> (8 * i));
  }
}

}  // namespace

std::string encoded(const StoreMessage& message) {
  size_t length = 1;
  for (const auto& text : message.texts) {
    length += kLengthBytes + text.size();
  }
  TORCH_CHECK(length <= kMaxMessageBytes,
              "[world] a message of ",
              length,
              " bytes for the store; expected at most ",
              kMaxMessageBytes);
  std::string bytes;
  bytes.reserve(kLengthBytes + length);
  add_length(bytes, length);
  bytes += static_cast<char>(message.kind);
  for (const auto& text : message.texts) {
    add_length(bytes, text.size());
    bytes += text;
  }
  return bytes;
}

size_t decoded_length(std::string_view bytes) {
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<size_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
  }
  return length;
}

std::optional<StoreMessage> decoded(std::string_view bytes) {
  if (bytes.empty() ||
      static_cast<uint8_t>(bytes[0]) > static_cast<uint8_t>(StoreMessageKind::Failed)) {
    return std::nullopt;
  }
  StoreMessage message{static_cast<StoreMessageKind>(bytes[0])};
  bytes.remove_prefix(1);
  while (!bytes.empty()) {
    if (bytes.size() < kLengthBytes || decoded_length(bytes) > bytes.size() - kLengthBytes) {
      return std::nullopt;
    }
    const size_t length = decoded_length(bytes);
    message.texts.emplace_back(bytes.substr(kLengthBytes, length));
    bytes.remove_prefix(kLengthBytes + length);
  }
  return message;
}

}  // namespace reprise::dist
