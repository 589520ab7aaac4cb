// Questions about characters, answered as Hugging Face's tokenizers answers them (which Unicode
// version that is differs by question: see unicode_versions.h).
#pragma once

#include <string>

namespace reprise::detail {

bool is_white_space(char32_t c);     ///< the property White_Space
bool is_number(char32_t c);          ///< categories Nd, Nl, No
bool is_punctuation(char32_t c);     ///< categories P*, and ASCII punctuation ($, +, ...)
bool is_accent(char32_t c);          ///< categories M*, as StripAccents sees them
bool is_word_character(char32_t c);  ///< \w: letters, marks, digits, connectors, joiners

/// Lower case; one character becomes two for U+0130.
std::u32string to_lower(char32_t c);

/// Canonical combining class, and decomposition (canonical, or with `compatibility` also the
/// compatibility mappings), of the Unicode version that the normal forms follow.
int combining_class(char32_t c);
std::u32string decompose(char32_t c, bool compatibility);

}  // namespace reprise::detail
