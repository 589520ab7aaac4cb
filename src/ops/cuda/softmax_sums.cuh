// The sums of a softmax, taken in one pass: whatever the largest value turns out to be, what was
// summed before is scaled to it.
//
// Values of -inf count as probability 0, also in the moment; a NaN shows in the sums. Every thread
// of a block gets the same bits.
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

/// Of values z: sum = sum 2^e and moment = sum e 2^e, e being (z - largest) * factor. The factor is
/// log2(e) times what scales the values, the same in all calls for a row.
struct SoftmaxSums {
  float largest, sum, moment;

  // A finite start: no difference of two infinities, whatever follows.
  __device__ __forceinline__ static SoftmaxSums of_none() { return {-FLT_MAX, 0.0f, 0.0f}; }

  // The same sums, seen from a value at least as large.
  __device__ __forceinline__ SoftmaxSums seen_from(float larger, float factor) const {
    const float e = fmaxf((largest - larger) * factor, kNothing);
    const float scale = power_of_2(e);
    return {larger, sum * scale, fmaf(e, sum, moment) * scale};
  }

  /// `top` is the largest of values. Without kMoment the moment is not to be used.
  template <bool kMoment, int kCount>
  __device__ __forceinline__ void add(const float (&values)[kCount], float top, float factor) {
    *this = seen_from(fmaxf(largest, top), factor);
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

// Symmetric to the bit (no product is contracted into the sum), so that all lanes agree.
__device__ __forceinline__ SoftmaxSums merged(const SoftmaxSums& a,
                                              const SoftmaxSums& b,
                                              float factor) {
  const float largest = fmaxf(a.largest, b.largest);
  const SoftmaxSums x = a.seen_from(largest, factor);
  const SoftmaxSums y = b.seen_from(largest, factor);
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

/// Over a block of whole warps, and whether `flag` is set in any thread. Calls alternate between
/// two arrays of partials (one per warp): then the one barrier also keeps partials from being
/// overwritten while they are read.
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
  return over_warp(lane < warps ? partials[lane] : SoftmaxSums::of_none(), factor);
}

}  // namespace reprise::cuda
