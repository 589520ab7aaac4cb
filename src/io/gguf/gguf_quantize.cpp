// Q8_0 is 32 numbers from -127 to 127 and a 16-bit scale, the largest of their magnitudes by 127.
// Half of a step rounds away from zero; the multiplications are those of the gguf package.
#include "io/gguf/gguf_quantize.h"

#include "io/gguf/gguf_dequantize.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

namespace reprise::io {
namespace {

constexpr uint16_t kHalfInfinity = 0x7C00;  // and, with other bits, NaN

bool is_finite_half(uint16_t bits) {
  return (bits & kHalfInfinity) != kHalfInfinity;
}

void put_bits(uint16_t bits, std::byte* out) {
  std::memcpy(out, &bits, sizeof(bits));
}

bool q8_0_block(const float* values, std::byte* out) {
  constexpr size_t kElements = 32;
  constexpr float kLargest = 127.0F;
  float most = 0;
  for (size_t i = 0; i < kElements; ++i) {
    if (!std::isfinite(values[i])) {
      return false;
    }
    most = std::max(most, std::abs(values[i]));
  }
  const float scale = most / kLargest;
  const float inverse = scale == 0 ? 0.0F : 1.0F / scale;
  const uint16_t bits = c10::detail::fp16_ieee_from_fp32_value(scale);
  put_bits(bits, out);
  for (size_t i = 0; i < kElements; ++i) {
    // The inverse of a subnormal scale overflows; 0 times infinity is then no number.
    const float step = std::round(values[i] * inverse);
    const auto number = std::isfinite(step) ? static_cast<int8_t>(step) : int8_t{0};
    std::memcpy(out + 2 + i, &number, 1);
  }
  return is_finite_half(bits);
}

}  // namespace

std::optional<GgufType> gguf_output_type(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, GgufType>, 4> kTypes = {
      {{"f32", GgufType::F32},
       {"f16", GgufType::F16},
       {"bf16", GgufType::BF16},
       {"q8_0", GgufType::Q80}}};
  for (const auto& [known, type] : kTypes) {
    if (known == name) {
      return type;
    }
  }
  return std::nullopt;
}

bool quantize(GgufType type, std::span<const float> values, std::span<std::byte> bytes) {
  const GgufBlock block = gguf_block(type);
  TORCH_INTERNAL_ASSERT(bytes.size() % block.bytes == 0 &&
                        bytes.size() / block.bytes * block.elements == values.size());
  bool fits = true;
  switch (type) {
    case GgufType::F32:
      std::memcpy(bytes.data(), values.data(), bytes.size());
      break;
    case GgufType::F16:
      for (size_t i = 0; i < values.size(); ++i) {
        const uint16_t bits = c10::detail::fp16_ieee_from_fp32_value(values[i]);
        fits = fits && is_finite_half(bits);
        put_bits(bits, bytes.data() + 2 * i);
      }
      break;
    case GgufType::BF16:
      for (size_t i = 0; i < values.size(); ++i) {
        put_bits(c10::detail::round_to_nearest_even(values[i]), bytes.data() + 2 * i);
      }
      break;
    case GgufType::Q80:
      for (size_t i = 0; i * block.elements < values.size(); ++i) {
        fits =
            q8_0_block(values.data() + i * block.elements, bytes.data() + i * block.bytes) && fits;
      }
      break;
    case GgufType::Q40:
    case GgufType::Q41:
    case GgufType::Q6K:
      TORCH_INTERNAL_ASSERT(false, "a type that is only read");
  }
  return fits;
}

}  // namespace reprise::io
