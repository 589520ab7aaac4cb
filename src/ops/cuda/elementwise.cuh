// What elementwise kernels share: a thread reads, computes and writes eight adjacent values.
#pragma once

#include "ops/cuda/vectors.cuh"

#include <cstdint>

namespace reprise::cuda {

inline constexpr int kElementwiseThreads = 256;
inline constexpr int kValues = 8;  // values per thread: whole packs of every type

/// `count` values, and zeros. kAligned requires `from` on a 16-byte boundary.
template <bool kAligned = true, class T>
__device__ __forceinline__ void read(float (&values)[kValues], const T* from, int count) {
  if (kAligned && count == kValues) {
#pragma unroll
    for (int i = 0; i < kValues; i += kLanes<T>) {
      const auto pack = unpack(load<true, Cache::Stream>(from, i, kValues));
#pragma unroll
      for (int k = 0; k < kLanes<T>; ++k) {
        values[i + k] = pack.at[k];
      }
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    values[i] = i < count ? static_cast<float>(from[i]) : 0.0f;
  }
}

template <bool kAligned = true, class T>
__device__ __forceinline__ void write(T* to, const float (&values)[kValues], int count) {
  if (kAligned && count == kValues) {
#pragma unroll
    for (int i = 0; i < kValues; i += kLanes<T>) {
      Floats<T> part;
#pragma unroll
      for (int k = 0; k < kLanes<T>; ++k) {
        part.at[k] = values[i + k];
      }
      store<true>(to, i, kValues, pack<T>(part));
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    if (i < count) {
      to[i] = static_cast<T>(values[i]);
    }
  }
}

/// Index of this thread's first value.
__device__ __forceinline__ int64_t start_of_thread() {
  return (static_cast<int64_t>(blockIdx.x) * kElementwiseThreads + threadIdx.x) * kValues;
}

__device__ __forceinline__ int count_from(int64_t start, int64_t all) {
  return static_cast<int>(max(int64_t{0}, min(int64_t{kValues}, all - start)));
}

inline int blocks_for(int64_t count) {
  constexpr int64_t kBlockValues = int64_t{kElementwiseThreads} * kValues;
  return narrow((count + kBlockValues - 1) / kBlockValues);
}

}  // namespace reprise::cuda
