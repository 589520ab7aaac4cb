// Checks and encodes UTF-8. Decoding is in the header, because it runs for every character.
#include "text/unicode/utf8.h"

#include <c10/util/Exception.h>

namespace reprise::text {
namespace {

/// How many bytes at `at` are (the beginning of) a well-formed character, and whether it is
/// complete.
struct Sequence {
  size_t length;
  bool whole;
};

Sequence read_sequence(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) {
    return {1, true};
  }
  if (lead < 0xC2 || lead > 0xF4) {
    return {1, false};
  }
  const size_t length = utf8_length(text[at]);
  for (size_t i = 1; i < length; ++i) {
    // The second byte has a narrower range after some leads: no overlong forms, no surrogates.
    const unsigned char low = i == 1 && lead == 0xE0 ? 0xA0 : i == 1 && lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = i == 1 && lead == 0xED ? 0x9F : i == 1 && lead == 0xF4 ? 0x8F : 0xBF;
    if (at + i >= text.size() || byte(at + i) < low || byte(at + i) > high) {
      return {i, false};
    }
  }
  return {length, true};
}

}  // namespace

size_t valid_utf8_prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Sequence sequence = read_sequence(text, at);
    if (!sequence.whole) {
      break;
    }
    at += sequence.length;
  }
  return at;
}

void check_utf8(std::string_view text, const std::string& what) {
  const size_t valid = valid_utf8_prefix(text);
  TORCH_CHECK(valid == text.size(),
              "[tokenizer] ",
              what,
              ": expected UTF-8, found another byte sequence at byte ",
              valid,
              " of ",
              text.size());
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    const Sequence sequence = read_sequence(bytes, at);
    if (sequence.whole) {
      text += bytes.substr(at, sequence.length);
    } else {
      text += "\xEF\xBF\xBD";
    }
    at += sequence.length;
  }
  return text;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace reprise::text
