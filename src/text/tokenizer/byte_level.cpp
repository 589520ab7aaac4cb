// The byte alphabet, built once.
#include "text/tokenizer/byte_level.h"

#include "text/unicode/utf8.h"

#include <string>

namespace reprise::text {
namespace {

constexpr size_t kLastCharacter = 0x143;

struct Alphabet {
  std::array<std::string, 256> text;
  std::array<std::string_view, 256> characters;
  std::array<int, kLastCharacter + 1> bytes;

  Alphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (size_t byte = 0; byte < 256; ++byte) {
      const bool stands_for_itself =
          (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const char32_t character = stands_for_itself ? static_cast<char32_t>(byte) : next++;
      append_utf8(text[byte], character);
      characters[byte] = text[byte];
      bytes[character] = static_cast<int>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet made;
  return made;
}

}  // namespace

const std::array<std::string_view, 256>& byte_level_alphabet() {
  return alphabet().characters;
}

std::optional<char> byte_of(char32_t character) {
  if (character > kLastCharacter || alphabet().bytes[character] < 0) {
    return std::nullopt;
  }
  return static_cast<char>(alphabet().bytes[character]);
}

void append_byte_level(NormalizedString& to,
                       const NormalizedString& from,
                       size_t begin,
                       size_t end) {
  const auto& characters = byte_level_alphabet();
  const std::string_view text = from.text();
  for (size_t at = begin; at < end;) {
    const size_t length = std::min(utf8_length(text[at]), end - at);
    const auto [first, last] = from.origin(at, at + length);
    const Origin origin{static_cast<uint32_t>(first), static_cast<uint32_t>(last)};
    for (size_t i = 0; i < length; ++i) {
      to.append(characters[static_cast<unsigned char>(text[at + i])], origin);
    }
    at += length;
  }
}

}  // namespace reprise::text
