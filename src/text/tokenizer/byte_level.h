// GPT-2's byte alphabet: every byte is a visible character, so that a vocabulary of strings can
// represent any bytes. Printable Latin-1 characters map to themselves, the other 68 bytes to U+0100
// and up.
#pragma once

#include "text/tokenizer/normalized_string.h"

#include <array>
#include <optional>
#include <string_view>

namespace reprise::text {

/// The character of each byte, as UTF-8 of one or two bytes.
const std::array<std::string_view, 256>& byte_level_alphabet();

/// The byte of a character; std::nullopt if it is not in the alphabet.
std::optional<char> byte_of(char32_t character);

/// Appends the bytes [begin, end) of `from`, each as its character.
void append_byte_level(NormalizedString& to,
                       const NormalizedString& from,
                       size_t begin,
                       size_t end);

}  // namespace reprise::text
