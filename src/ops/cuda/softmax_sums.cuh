// The sums of a softmax in one pass: when a larger value appears, the sums so far are rescaled to
// it (online softmax).
//
// Values of -inf count as probability 0, also in the moment; a NaN shows up in the sums. Every
// thread of a block gets the same bits.
#pragma once

#include <cfloat>

#include "ops/cuda/vectors.cuh"

namespace reprise::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;
inline constexpr float kNothing = -200.0f;  // 2 to this power is 0, and 0 times it is not NaN

__device__ __forceinline__ float power_of_2(float exponent) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
  return result;
}

// fmaxf would hide a NaN.
__device__ __forceinline__ float at_least(float value, float least) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(value), "f"(least));
  return result;
}

template <int kCount>
__device__ __forceinline__ float largest_of(const float (&values)[kCount]) {
  float result = values[0];
#pragma unroll
  for (int i = 1; i < kCount; ++i) {
    result = fmaxf(result, values[i]);
  }
  return result;
}

/// For values z: sum = sum 2^e and moment = sum e 2^e, with e = (z - largest) * factor. The factor
/// is log2(e) times the scale of the values, the same in all calls for a row.
struct SoftmaxSums {
  float largest, sum, moment;

  // Starts finite, so that two infinities are never subtracted.
  __device__ __forceinline__ static SoftmaxSums empty() { return {-FLT_MAX, 0.0f, 0.0f}; }

  // The same sums relative to a value at least as large.
  __device__ __forceinline__ SoftmaxSums rescaled_to(float larger, float factor) const {
    const float e = fmaxf((largest - larger) * factor, kNothing);
    const float scale = power_of_2(e);
    return {larger, sum * scale, fmaf(e, sum, moment) * scale};
  }

  /// `top` is the largest of the values. Without kMoment the moment is undefined.
  template <bool kMoment, int kCount>
  __device__ __forceinline__ void add(const float (&values)[kCount], float top, float factor) {
    *this = rescaled_to(fmaxf(largest, top), factor);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float e = (values[i] - largest) * factor;
      if constexpr (kMoment) {
        const float finite = at_least(e, kNothing);
        const float power = power_of_2(finite);
        sum += power;
        moment = fmaf(finite, power, moment);
      } else {
        sum += power_of_2(e);
      }
    }
  }
};

// Symmetric to the last bit (no product is contracted into the sum), so that all lanes agree.
__device__ __forceinline__ SoftmaxSums merged(const SoftmaxSums& a,
                                              const SoftmaxSums& b,
                                              float factor) {
  const float largest = fmaxf(a.largest, b.largest);
  const SoftmaxSums x = a.rescaled_to(largest, factor);
  const SoftmaxSums y = b.rescaled_to(largest, factor);
  return {largest, __fadd_rn(x.sum, y.sum), __fadd_rn(x.moment, y.moment)};
}

__device__ __forceinline__ SoftmaxSums over_warp(SoftmaxSums sums, float factor) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const SoftmaxSums other{__shfl_xor_sync(0xffffffffu, sums.largest, step),
                            __shfl_xor_sync(0xffffffffu, sums.sum, step),
                            __shfl_xor_sync(0xffffffffu, sums.moment, step)};
    sums = merged(sums, other, factor);
  }
  return sums;
}

/// Merges the sums of a block of whole warps; sets `flag` if it is set in any thread. Calls must
/// alternate between two arrays of partials (one entry per warp), so that one barrier is enough to
/// keep partials from being overwritten while they are read.
__device__ __forceinline__ SoftmaxSums over_block(SoftmaxSums sums,
                                                  bool& flag,
                                                  SoftmaxSums* partials,
                                                  float factor) {
  sums = over_warp(sums, factor);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane == 0) {
    partials[threadIdx.x / kWarp] = sums;
  }
  flag = __syncthreads_or(flag) != 0;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  return over_warp(lane < warps ? partials[lane] : SoftmaxSums::empty(), factor);
}

}  // namespace reprise::cuda
