// The formats of quantised weights, which are those of bitsandbytes.
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <string>

namespace reprise {

enum class QuantFormat : uint8_t {
  Nf4,   ///< 4 bits: quantiles of a normal distribution, scaled by the largest value of a block
  Fp4,   ///< 4 bits: sign, two bits of exponent and one of mantissa, scaled in the same way
  Int8,  ///< 8 bits, scaled by the largest value of a row (LLM.int8)
};

/// How a weight is quantised. The defaults are those of bitsandbytes.
struct QuantScheme {
  QuantFormat format = QuantFormat::Nf4;
  int64_t block = 64;         ///< values that share a scale, in row-major order; not for Int8
  bool double_quant = false;  ///< quantises the scales too, to 8 bits; not for Int8

  bool operator==(const QuantScheme&) const = default;
};

/// "nf4", "fp4" or "int8".
REPRISE_API const char* name_of(QuantFormat format);

/// Throws for a block size that bitsandbytes does not have, and for Int8 with double_quant.
REPRISE_API void check_scheme(const QuantScheme& scheme);

}  // namespace reprise
