// Character properties as in Hugging Face's tokenizers. The Unicode version differs by property:
// see unicode_versions.h.
#pragma once

#include <string>

namespace reprise::text {

bool is_white_space(char32_t c);     ///< the property White_Space
bool is_number(char32_t c);          ///< categories Nd, Nl, No
bool is_punctuation(char32_t c);     ///< categories P*, and ASCII punctuation ($, +, ...)
bool is_accent(char32_t c);          ///< categories M*, for StripAccents
bool is_word_character(char32_t c);  ///< \w: letters, marks, digits, connectors, joiners

/// Lower case. U+0130 becomes two characters.
std::u32string to_lower(char32_t c);

/// Canonical combining class and decomposition, in the Unicode version of the normal forms. With
/// `compatibility` the decomposition includes compatibility mappings.
int combining_class(char32_t c);
std::u32string decompose(char32_t c, bool compatibility);

}  // namespace reprise::text
