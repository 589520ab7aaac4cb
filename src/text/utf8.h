// UTF-8 in text that has been checked: decoding never looks past the end and never fails on it.
// What comes from outside passes check_utf8 first.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reprise::detail {

/// The byte where `text` stops being UTF-8 (overlong forms, surrogates and values above U+10FFFF
/// are not), or text.size().
size_t valid_utf8_prefix(std::string_view text);

/// Throws c10::Error saying `what` is not UTF-8, and at which byte.
void check_utf8(std::string_view text, const std::string& what);

/// The text with U+FFFD for each maximal part that is not UTF-8, as Rust and Python replace.
std::string replace_invalid_utf8(std::string_view bytes);

void append_utf8(std::string& text, char32_t code_point);

inline bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// Bytes of the character that starts with `lead`.
inline size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// The character at `at`, which moves on behind it. `text` is valid UTF-8, `at` inside it and at
/// the start of a character.
inline char32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  const size_t length = utf8_length(text[at]);
  char32_t value = length == 1 ? lead : lead & (0x7FU >> length);
  for (size_t i = 1; i < length; ++i) {
    value = (value << 6) | (byte(at + i) & 0x3FU);
  }
  at += length;
  return value;
}

/// The character that ends at `at`, which moves before it. at > 0.
inline char32_t previous_code_point(std::string_view text, size_t& at) {
  do {
    --at;
  } while (at > 0 && is_continuation(text[at]));
  size_t start = at;
  return next_code_point(text, start);
}

}  // namespace reprise::detail
