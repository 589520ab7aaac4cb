// The bits that decide which values dropout keeps: a hash of a seed and a value's position.
//
// Read by the CPU's and the GPU's kernels, so that both keep the same values. Without LibTorch's
// headers, so that nvcc can include it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define REPRISE_ON_BOTH __host__ __device__ __forceinline__
#else
#define REPRISE_ON_BOTH inline
#endif

namespace reprise::ops {

/// SplitMix64: increment and multipliers.
inline constexpr uint64_t kDropIncrement = 0x9E3779B97F4A7C15ULL;
inline constexpr uint64_t kDropFactor = 0xBF58476D1CE4E5B9ULL;
inline constexpr uint64_t kDropLastFactor = 0x94D049BB133111EBULL;

/// The random bits of values 2 pair (the lower half) and 2 pair + 1.
REPRISE_ON_BOTH uint64_t drop_bits(uint64_t seed, uint64_t pair) {
  uint64_t z = seed + (pair + 1) * kDropIncrement;
  z = (z ^ (z >> 30)) * kDropFactor;
  z = (z ^ (z >> 27)) * kDropLastFactor;
  return z ^ (z >> 31);
}

/// A value is kept if its 32 bits are at least this, which has probability 1 - p.
inline uint32_t drop_threshold(double p) {
  return static_cast<uint32_t>(std::clamp(std::round(p * 0x1p32), 0.0, 0x1p32 - 1));
}

}  // namespace reprise::ops
