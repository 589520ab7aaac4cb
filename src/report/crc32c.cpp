// One byte at a time with a table: records have a few hundred bytes, so speed does not matter.
#include "report/crc32c.h"

#include <array>
#include <bit>

namespace reprise::report {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  constexpr uint32_t kReversedPolynomial = 0x82F63B78;
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) {
      rest = (rest >> 1) ^ ((rest & 1) != 0 ? kReversedPolynomial : 0);
    }
    table[byte] = rest;
  }
  return table;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_table();
  uint32_t rest = ~uint32_t{0};
  for (const char byte : bytes) {
    rest = kTable[(rest ^ static_cast<uint8_t>(byte)) & 0xFF] ^ (rest >> 8);
  }
  return ~rest;
}

uint32_t masked_crc32c(std::string_view bytes) {
  constexpr uint32_t kShift = 0xA282EAD8;
  return std::rotr(crc32c(bytes), 15) + kShift;
}

}  // namespace reprise::report
