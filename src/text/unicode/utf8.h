// UTF-8. Decoding assumes checked text: it never reads past the end and never fails. External text
// must pass check_utf8() first.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace reprise::text {

/// The offset of the first byte that is not valid UTF-8, or text.size(). Overlong forms, surrogates
/// and values above U+10FFFF are invalid.
size_t valid_utf8_prefix(std::string_view text);

/// Throws c10::Error unless `text`, called `what` in the message, is UTF-8.
void check_utf8(std::string_view text, const std::string& what);

/// Replaces each maximal invalid part by U+FFFD, like Rust and Python.
std::string replace_invalid_utf8(std::string_view bytes);

void append_utf8(std::string& text, char32_t code_point);

inline bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// Length in bytes of the character that starts with `lead`.
inline size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// The character at `at`, which is advanced past it. `text` is valid UTF-8 and `at` the start of a
/// character in it.
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

/// The character that ends at `at`, which is moved before it. at > 0.
inline char32_t previous_code_point(std::string_view text, size_t& at) {
  do {
    --at;
  } while (at > 0 && is_continuation(text[at]));
  size_t start = at;
  return next_code_point(text, start);
}

}  // namespace reprise::text
