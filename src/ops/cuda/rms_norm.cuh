// What RMSNorm and its gradient share: how threads divide rows, and how the weight is read.
//
// A row belongs to a group of threads (threadIdx.x); a block has enough groups (threadIdx.y) to be
// worth scheduling. Thread t of a group holds the packs t, t + group, t + 2 group, …
#pragma once

#include <algorithm>

#include "ops/cuda/reduce.cuh"

namespace reprise::cuda {

inline int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// Number of threads that hold `packs` packs, at most `each` per thread: a group that GroupSum can
/// sum over.
inline int64_t group_of(int64_t packs, int64_t each) {
  const int64_t threads = divide_up(packs, each);
  if (threads > kWarp) {
    return divide_up(threads, kWarp) * kWarp;
  }
  int64_t group = 1;
  while (group < threads) {
    group *= 2;
  }
  return group;
}

/// dweight = the sum of the first `count` rows of partials.
void add_partials(const RmsNormBackward& job, int count, cudaStream_t stream);

__device__ __forceinline__ float load_one(Type type, const void* data, int64_t at) {
  switch (type) {
    case Type::BFloat16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
    case Type::Half:
      return __half2float(static_cast<const __half*>(data)[at]);
    case Type::Float:
      break;
  }
  return static_cast<const float*>(data)[at];
}

template <class T>
__device__ __forceinline__ bool is_type(Type type) {
  return type == (std::is_same_v<T, float>    ? Type::Float
                  : std::is_same_v<T, __half> ? Type::Half
                                              : Type::BFloat16);
}

/// The weights of a pack of T. Their type is a run-time argument: they come from the first-level
/// cache, so a kernel for every pair of types would gain nothing.
template <class T, bool kAligned>
__device__ __forceinline__ Floats<T> load_weight(Type type, const void* weight, int at, int width) {
  if (is_type<T>(type)) {
    return unpack(load<kAligned>(static_cast<const T*>(weight), at, width));
  }
  Floats<T> result{};
  if (type == Type::Float) {
#pragma unroll
    for (int i = 0; i < kLanes<T>; i += 4) {
      const auto part = unpack(load<kAligned>(static_cast<const float*>(weight), at + i, width));
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        result.at[i + j] = part.at[j];
      }
    }
    return result;
  }
#pragma unroll
  for (int i = 0; i < kLanes<T>; ++i) {
    if (at + i < width) {
      result.at[i] = load_one(type, weight, at + i);
    }
  }
  return result;
}

/// What the normalised values of a pack are multiplied by. Without an offset nothing is added: a
/// weight of -0 stays one.
template <class T, bool kAligned, class Job>
__device__ __forceinline__ Floats<T> load_factors(const Job& job, int at, int width) {
  auto factors = load_weight<T, kAligned>(job.weight_type, job.weight, at, width);
  if (job.weight_offset != 0) {
#pragma unroll
    for (int i = 0; i < kLanes<T>; ++i) {
      factors.at[i] += job.weight_offset;
    }
  }
  return factors;
}

}  // namespace reprise::cuda
