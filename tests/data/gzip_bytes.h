// gzip streams for tests, made without zlib: members of blocks that are stored, not compressed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace reprise::testing {

inline std::string little_endian(uint32_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) {
    text += static_cast<char>(value >> (8 * i));
  }
  return text;
}

inline uint32_t crc32_of(std::string_view text) {
  uint32_t crc = ~0U;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
    }
  }
  return ~crc;
}

/// One member that decompresses to `text`.
inline std::string gzip_member(std::string_view text) {
  constexpr size_t kLongestBlock = 65535;
  std::string bytes("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  for (size_t begin = 0; begin == 0 || begin < text.size(); begin += kLongestBlock) {
    const auto block = text.substr(begin, kLongestBlock);
    const bool is_last = begin + kLongestBlock >= text.size();
    const auto size = static_cast<uint32_t>(block.size());
    bytes += is_last ? '\1' : '\0';
    bytes += little_endian(size, 2) + little_endian(~size, 2);
    bytes += block;
  }
  return bytes + little_endian(crc32_of(text), 4) +
         little_endian(static_cast<uint32_t>(text.size()), 4);
}

}  // namespace reprise::testing
