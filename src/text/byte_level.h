// GPT-2's alphabet: each byte as a visible character, so that a vocabulary of strings can hold any
// bytes. Printable Latin-1 stands for itself, the other 68 bytes for U+0100 and up.
#pragma once

#include "text/aligned_text.h"

#include <array>
#include <optional>
#include <string_view>

namespace reprise::detail {

/// For each byte its character, as UTF-8 of one or two bytes.
const std::array<std::string_view, 256>& byte_level_alphabet();

/// The byte that a character stands for.
std::optional<char> byte_of(char32_t character);

/// Appends bytes [begin, end) of `from`, each as its character.
void append_byte_level(AlignedText& to, const AlignedText& from, size_t begin, size_t end);

}  // namespace reprise::detail
