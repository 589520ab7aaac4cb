// See Note [Weights without a float32 copy].
#include "optim/stochastic_rounding.h"

#include <ATen/ops/arange.h>

namespace reprise {
namespace {

constexpr uint32_t kGolden = 0x9E3779B9;  // 2^32 by the golden ratio: neighbours get far apart
// The constants of "lowbias32", a hash of 32 bits of which half change when one of its input does.
constexpr uint32_t kFirst = 0x7FEB352D;
constexpr uint32_t kSecond = 0x846CA68B;

// As LibTorch takes it. Its kernels for int32 wrap around, as uint32_t does.
int64_t as_int32(uint32_t value) {
  return static_cast<int32_t>(value);
}

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15 + (hash << 6) + (hash >> 2);
  hash ^= hash >> 30;
  hash *= 0xBF58476D1CE4E5B9;
  hash ^= hash >> 27;
  hash *= 0x94D049BB133111EB;
  return hash ^ (hash >> 31);
}

uint64_t hash_of(std::string_view text) {  // FNV-1a: std::hash differs between libraries
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  }
  return hash;
}

/// bits ^= bits >> count, without the copies of the sign that >> of an int32 brings in.
void fold(const at::Tensor& bits, int64_t count) {
  at::Tensor high = bits.bitwise_right_shift(count);
  high.bitwise_and_((int64_t{1} << (32 - count)) - 1);
  bits.bitwise_xor_(high);
}

}  // namespace

RoundingKey::RoundingKey(uint64_t seed,
                         std::string_view parameter,
                         int64_t updates,
                         uint64_t purpose) {
  uint64_t hash = mixed(seed, hash_of(parameter));
  hash = mixed(hash, static_cast<uint64_t>(updates));
  hash = mixed(hash, purpose);
  key_ = static_cast<uint32_t>(hash >> 32);
}

at::Tensor RoundingKey::bits(int64_t begin, int64_t count, const at::Device& device) const {
  at::Tensor bits = at::arange(count, at::device(device).dtype(at::kInt));
  const auto first = static_cast<uint32_t>(static_cast<uint64_t>(begin));
  bits.mul_(as_int32(kGolden)).add_(as_int32(first * kGolden + key_));
  fold(bits, 16);
  bits.mul_(as_int32(kFirst));
  fold(bits, 15);
  bits.mul_(as_int32(kSecond));
  fold(bits, 16);
  return bits;
}

void round_into(const at::Tensor& target,
                const at::Tensor& values,
                const RoundingKey& key,
                int64_t begin) {
  constexpr int64_t kCutOff = 0xFFFF;
  at::Tensor random = key.bits(begin, values.numel(), values.device());
  random.bitwise_and_(kCutOff);
  const at::Tensor pattern = values.view(at::kInt);
  pattern.add_(random).bitwise_and_(~kCutOff);
  target.copy_(values);
}

}  // namespace reprise
