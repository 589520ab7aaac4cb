// Follows numpy/random/bit_generator.pyx (SeedSequence) and pcg64.h.
#include "data/dataset/numpy_random.h"

#include <array>
#include <bit>
#include <cstddef>

namespace reprise::data {
namespace {

constexpr size_t kPool = 4;
using Pool = std::array<uint32_t, kPool>;

uint32_t fold(uint32_t value) {
  return value ^ (value >> 16);
}

/// A hash whose constant changes with every use.
class Hash {
 public:
  Hash(uint32_t constant, uint32_t factor) : constant_(constant), factor_(factor) {}

  uint32_t operator()(uint32_t value) {
    value ^= constant_;
    constant_ *= factor_;
    return fold(value * constant_);
  }

 private:
  uint32_t constant_;
  uint32_t factor_;
};

Pool mixed_pool(uint64_t seed) {
  Hash hash(0x43b0d7e5U, 0x931e8875U);
  Pool pool = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (uint32_t& word : pool) {
    word = hash(word);
  }
  for (size_t from = 0; from < kPool; ++from) {
    for (size_t to = 0; to < kPool; ++to) {
      if (from != to) {
        pool[to] = fold(0xca01f9ddU * pool[to] - 0x4973f715U * hash(pool[from]));
      }
    }
  }
  return pool;
}

}  // namespace

NumpyRandom::NumpyRandom(uint64_t seed) {
  const Pool pool = mixed_pool(seed);
  Hash hash(0x8b51f9ddU, 0x58f38dedU);
  std::array<uint64_t, 4> words{};
  for (size_t i = 0; i < 2 * words.size(); ++i) {
    words[i / 2] |= uint64_t{hash(pool[i % kPool])} << (32 * (i % 2));
  }
  increment_ = (((Wide{words[2]} << 64) | words[3]) << 1) | 1U;
  step();
  state_ += (Wide{words[0]} << 64) | words[1];
  step();
}

void NumpyRandom::step() {
  constexpr Wide kMultiplier = (Wide{2549297995355413924ULL} << 64) | 4865540595714422341ULL;
  state_ = state_ * kMultiplier + increment_;
}

double NumpyRandom::uniform() {
  step();
  const auto folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  const uint64_t bits = std::rotr(folded, static_cast<int>(state_ >> 122));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace reprise::data
