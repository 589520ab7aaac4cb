// The rotation of heads, in units of two packs and the angles of their pairs. A unit is one pack of
// each half, or two adjacent packs if interleaved; in both cases unit j has the pairs from
// j * lanes on.
//
// The threads of a block are arranged as (unit, head, token); a thread keeps the angles of its unit
// while it loops over its heads.
#pragma once

#include <algorithm>

#include "ops/cuda/vectors.cuh"

namespace reprise::cuda {

inline constexpr int kRopeThreads = 256;
inline constexpr int kRopeHeads = 4;  // heads that a thread reads before it rotates the first
inline constexpr int kRopeBlocks =
    3;  // resident blocks per multiprocessor, which bounds the registers

struct RopeTiles {
  dim3 threads;
  int blocks;
};

inline RopeTiles rope_tiles(int64_t tokens, int64_t heads, int64_t units) {
  const int64_t x = std::min<int64_t>(units, kRopeThreads);
  const int64_t y = std::min<int64_t>((heads + kRopeHeads - 1) / kRopeHeads, kRopeThreads / x);
  const int64_t z = std::min<int64_t>(kRopeThreads / (x * y), 64);  // the limit of blockDim.z
  return {dim3(narrow(x), narrow(y), narrow(z)), narrow((tokens + z - 1) / z)};
}

/// Two packs of a head: the start of each, and the end of the values that belong to it.
struct Unit {
  int first, first_end, second, second_end;
};

template <class T, bool kInterleaved>
__device__ __forceinline__ Unit rotated_unit(int j, int dims) {
  const int pair = j * kLanes<T>, half = dims / 2;
  if constexpr (kInterleaved) {
    return {2 * pair, dims, 2 * pair + kLanes<T>, dims};
  } else {
    return {pair, half, half + pair, dims};
  }
}

/// cos and sin of the pairs [pair, pair + lanes) of a row of `half` pairs.
template <class T>
struct Angles {
  Floats<T> cos, sin;
};

template <class T, bool kAligned>
__device__ __forceinline__ Angles<T> load_angles(const float* cos,
                                                 const float* sin,
                                                 int pair,
                                                 int half) {
  Angles<T> result;
#pragma unroll
  for (int i = 0; i < kLanes<T>; i += 4) {
    const auto c = unpack(load<kAligned>(cos, pair + i, half));
    const auto s = unpack(load<kAligned>(sin, pair + i, half));
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      result.cos.at[i + k] = c.at[k];
      result.sin.at[i + k] = s.at[k];
    }
  }
  return result;
}

__device__ __forceinline__ void rotate(float& a, float& b, float cos, float sin) {
  const float rotated = a * cos - b * sin;
  b = b * cos + a * sin;
  a = rotated;
}

template <class T, bool kInterleaved>
__device__ __forceinline__ void rotate(Pack<T>& first, Pack<T>& second, const Angles<T>& angles) {
  auto a = unpack(first), b = unpack(second);
  if constexpr (kInterleaved) {
    constexpr int kPairs = kLanes<T> / 2;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int j = i + kPairs;
      rotate(a.at[2 * i], a.at[2 * i + 1], angles.cos.at[i], angles.sin.at[i]);
      rotate(b.at[2 * i], b.at[2 * i + 1], angles.cos.at[j], angles.sin.at[j]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kLanes<T>; ++i) {
      rotate(a.at[i], b.at[i], angles.cos.at[i], angles.sin.at[i]);
    }
  }
  first = pack<T>(a);
  second = pack<T>(b);
}

}  // namespace reprise::cuda
