// Sums over the threads of a warp or of a group of warps, as fixed trees: the same values in the
// same threads give the same bits, and every thread gets the same result.
#pragma once

#include "ops/cuda/vectors.cuh"

namespace reprise::cuda {

/// The sum over groups of `threads` adjacent lanes, a power of two up to 32. All lanes of the warp
/// must call it.
__device__ __forceinline__ float warp_sum(float value, int threads = kWarp) {
  for (int step = threads / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, step);
  }
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, step));
  }
  return value;
}

/// Sums over groups of threadIdx.x in [0, blockDim.x), one group per threadIdx.y: a power of two up
/// to 32, or whole warps. All threads of the block must call it, with turn = 0, 1, 2, …: with two
/// alternating buffers one barrier per sum is enough.
struct GroupSum {
  float sums[2][kWarp];

  __device__ __forceinline__ float operator()(float value, int turn) {
    const int threads = static_cast<int>(blockDim.x);
    if (threads <= kWarp) {
      return warp_sum(value, threads);
    }
    value = warp_sum(value);
    const int warps = threads / kWarp;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    float* group = sums[turn % 2] + static_cast<int>(threadIdx.y) * warps;
    if (lane == 0) {
      group[threadIdx.x / kWarp] = value;
    }
    __syncthreads();
    return warp_sum(lane < warps ? group[lane] : 0.0f);
  }
};

}  // namespace reprise::cuda
