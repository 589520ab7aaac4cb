// The block layouts of ggml. In each of them a 16-bit float scales a run of small integers. The
// order of the multiplications is llama.cpp's, so that the results are the same to the last bit.
#include "io/gguf/gguf_dequantize.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace reprise::io {
namespace {

struct Kind {
  GgufType type;
  GgufBlock block;
};

constexpr std::array<Kind, 7> kKinds = {{
    {GgufType::F32, {1, 4}},
    {GgufType::F16, {1, 2}},
    {GgufType::BF16, {1, 2}},
    {GgufType::Q80, {32, 34}},
    {GgufType::Q40, {32, 18}},
    {GgufType::Q41, {32, 20}},
    {GgufType::Q6K, {256, 210}},
}};

/// By ggml's type number. A gap is a type that was removed from the format.
constexpr std::array<const char*, 40> kNames = {
    "F32",    "F16",   "Q4_0",  "Q4_1",   "",      "",      "Q5_0",    "Q5_1",   "Q8_0",    "Q8_1",
    "Q2_K",   "Q3_K",  "Q4_K",  "Q5_K",   "Q6_K",  "Q8_K",  "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S",
    "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",    "I16",   "I32",     "I64",    "F64",     "IQ1_M",
    "BF16",   "",      "",      "",       "TQ1_0", "TQ2_0", "",        "",       "",        "MXFP4",
};

uint8_t byte_at(const std::byte* bytes, size_t i) {
  return std::to_integer<uint8_t>(bytes[i]);
}

int8_t signed_at(const std::byte* bytes, size_t i) {
  return static_cast<int8_t>(byte_at(bytes, i));
}

uint16_t bits_at(const std::byte* bytes) {
  uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

float half_at(const std::byte* bytes) {
  return c10::detail::fp16_ieee_to_fp32_value(bits_at(bytes));
}

constexpr size_t kHalfBlock = 16;  // a byte holds element i in its low and i + 16 in its high bits

void q4_0(const std::byte* block, float* out) {
  const float scale = half_at(block);
  for (size_t i = 0; i < kHalfBlock; ++i) {
    const uint8_t pair = byte_at(block, 2 + i);
    out[i] = scale * static_cast<float>((pair & 0xF) - 8);
    out[i + kHalfBlock] = scale * static_cast<float>((pair >> 4) - 8);
  }
}

void q4_1(const std::byte* block, float* out) {
  const float scale = half_at(block);
  const float minimum = half_at(block + 2);
  for (size_t i = 0; i < kHalfBlock; ++i) {
    const uint8_t pair = byte_at(block, 4 + i);
    out[i] = scale * static_cast<float>(pair & 0xF) + minimum;
    out[i + kHalfBlock] = scale * static_cast<float>(pair >> 4) + minimum;
  }
}

void q8_0(const std::byte* block, float* out) {
  const float scale = half_at(block);
  for (size_t i = 0; i < 2 * kHalfBlock; ++i) {
    out[i] = static_cast<float>(signed_at(block, 2 + i)) * scale;
  }
}

/// 256 numbers of six bits: low four in the first 128 bytes, high two in the next 64; then a signed
/// scale for every 16 numbers, and the scale of the scales. Two halves of 128 follow one layout.
void q6_k(const std::byte* block, float* out) {
  constexpr size_t kHighBits = 128;
  constexpr size_t kScales = 192;
  constexpr size_t kScale = 208;
  const float scale = half_at(block + kScale);
  for (size_t half = 0; half < 2; ++half) {
    const std::byte* const low = block + half * 64;
    const std::byte* const high = block + kHighBits + half * 32;
    for (size_t i = 0; i < 128; ++i) {
      const size_t group = i / 32;  // four groups of 32 share the same 32 bytes of high bits
      const size_t lane = i % 32;
      const int low_bits = (byte_at(low, lane + (group % 2) * 32) >> (4 * (group / 2))) & 0xF;
      const int high_bits = (byte_at(high, lane) >> (2 * group)) & 3;
      const float group_scale =
          scale * static_cast<float>(signed_at(block, kScales + half * 8 + i / 16));
      out[half * 128 + i] = group_scale * static_cast<float>((low_bits | (high_bits << 4)) - 32);
    }
  }
}

template <void (*Block)(const std::byte*, float*)>
void each_block(GgufBlock block, std::span<const std::byte> bytes, std::span<float> values) {
  for (size_t i = 0; i * block.bytes < bytes.size(); ++i) {
    Block(bytes.data() + i * block.bytes, values.data() + i * block.elements);
  }
}

}  // namespace

GgufBlock gguf_block(GgufType type) {
  const auto* const found = std::find_if(
      kKinds.begin(), kKinds.end(), [&](const Kind& kind) { return kind.type == type; });
  TORCH_INTERNAL_ASSERT(found != kKinds.end());
  return found->block;
}

std::optional<GgufType> gguf_type_from_number(uint32_t number) {
  for (const Kind& kind : kKinds) {
    if (static_cast<uint32_t>(kind.type) == number) {
      return kind.type;
    }
  }
  return std::nullopt;
}

std::string gguf_type_name(uint32_t number) {
  const bool named = number < kNames.size() && *kNames[number] != '\0';
  return named ? kNames[number] : "type " + std::to_string(number);
}

std::string gguf_types() {
  std::string names;
  for (const Kind& kind : kKinds) {
    names += (names.empty() ? "" : ", ") + gguf_type_name(static_cast<uint32_t>(kind.type));
  }
  return names;
}

void dequantize(GgufType type, std::span<const std::byte> bytes, std::span<float> values) {
  const GgufBlock block = gguf_block(type);
  TORCH_INTERNAL_ASSERT(bytes.size() % block.bytes == 0 &&
                        bytes.size() / block.bytes * block.elements == values.size());
  switch (type) {
    case GgufType::F32:
      std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(values).begin());
      return;
    case GgufType::F16:
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = half_at(bytes.data() + 2 * i);
      }
      return;
    case GgufType::BF16:
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = c10::detail::f32_from_bits(bits_at(bytes.data() + 2 * i));
      }
      return;
    case GgufType::Q40:
      return each_block<q4_0>(block, bytes, values);
    case GgufType::Q41:
      return each_block<q4_1>(block, bytes, values);
    case GgufType::Q80:
      return each_block<q8_0>(block, bytes, values);
    case GgufType::Q6K:
      return each_block<q6_k>(block, bytes, values);
  }
}

}  // namespace reprise::io
