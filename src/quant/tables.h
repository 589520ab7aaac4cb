// The numbers that codes stand for.
#pragma once

#include <reprise/export.h>
#include <reprise/quant/format.h>

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace reprise::quant {

inline constexpr int kCodes4 = 16, kCodes8 = 256;
inline constexpr int64_t kNestedBlock = 256;  ///< scales that share a scale of their own

/// What the 4-bit codes stand for, in their order: nf4 ascends, fp4 does not.
inline constexpr std::array<float, kCodes4> kNf4 = {-1.0F,
                                                    -0.6961928009986877F,
                                                    -0.5250730514526367F,
                                                    -0.39491748809814453F,
                                                    -0.28444138169288635F,
                                                    -0.18477343022823334F,
                                                    -0.09105003625154495F,
                                                    0.0F,
                                                    0.07958029955625534F,
                                                    0.16093020141124725F,
                                                    0.24611230194568634F,
                                                    0.33791524171829224F,
                                                    0.44070982933044434F,
                                                    0.5626170039176941F,
                                                    0.7229568362236023F,
                                                    1.0F};
inline constexpr std::array<float, kCodes4> kFp4 = {0.0F,
                                                    0.0625F / 12,
                                                    8.0F / 12,
                                                    1.0F,
                                                    4.0F / 12,
                                                    6.0F / 12,
                                                    2.0F / 12,
                                                    3.0F / 12,
                                                    0.0F,
                                                    -0.0625F / 12,
                                                    -8.0F / 12,
                                                    -1.0F,
                                                    -4.0F / 12,
                                                    -6.0F / 12,
                                                    -2.0F / 12,
                                                    -3.0F / 12};

/// The 4-bit codes of `format` in ascending order of their numbers.
inline constexpr std::array<uint8_t, kCodes4> kNf4Order = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
inline constexpr std::array<uint8_t, kCodes4> kFp4Order = {
    11, 10, 13, 12, 15, 14, 9, 0, 8, 1, 6, 7, 4, 5, 2, 3};

inline const std::array<float, kCodes4>& numbers_of(QuantFormat format) {
  return format == QuantFormat::Fp4 ? kFp4 : kNf4;
}

inline const std::array<uint8_t, kCodes4>& order_of(QuantFormat format) {
  return format == QuantFormat::Fp4 ? kFp4Order : kNf4Order;
}

/// The 8-bit numbers of quantised scales, ascending: float32 (256) on the CPU. A tree of exponents
/// from 1e-6 to 1, whose fractions have fewer bits the smaller the exponent.
REPRISE_API at::Tensor dynamic_map();

/// How an int8 value becomes a fraction of its row's largest value: 1 / 127.
inline constexpr float kInt8Step = 7.874015718698502e-3F;
inline constexpr float kInt8Most = 127;

}  // namespace reprise::quant
