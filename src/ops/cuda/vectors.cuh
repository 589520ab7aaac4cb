// Packs: 16 bytes of adjacent values, the unit in which kernels read, compute and write.
//
// A pack is read in one access where rows are aligned (kAligned), and value by value otherwise. The
// same thread holds a value in both cases, so alignment never changes the order of a sum. Past the
// end of a row values read as zero and are not written.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "ops/cuda/dispatch.cuh"

namespace reprise::cuda {

inline constexpr int kWarp = 32;

/// Number of values in a pack.
template <class T>
inline constexpr int kLanes = 16 / static_cast<int>(sizeof(T));

/// Values as stored: half the registers of floats, so values that wait are kept in this form.
template <class T>
struct Pack {
  uint32_t words[4];
};

template <class T>
struct Floats {
  float at[kLanes<T>];
};

/// Stream: not read again soon, so that it does not displace other data in the second-level cache.
enum class Cache : uint8_t { Keep, Stream };

template <class T>
__device__ __forceinline__ Floats<T> unpack(const Pack<T>& pack) {
  Floats<T> values;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t word = pack.words[i];
    if constexpr (std::is_same_v<T, float>) {
      values.at[i] = __uint_as_float(word);
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      values.at[2 * i] = __uint_as_float(word << 16);
      values.at[2 * i + 1] = __uint_as_float(word & 0xffff0000u);
    } else {
      const float2 pair = __half22float2(reinterpret_cast<const __half2&>(word));
      values.at[2 * i] = pair.x;
      values.at[2 * i + 1] = pair.y;
    }
  }
  return values;
}

/// Rounds to nearest even.
template <class T>
__device__ __forceinline__ Pack<T> pack(const Floats<T>& values) {
  Pack<T> result;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      result.words[i] = __float_as_uint(values.at[i]);
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      const auto pair = __floats2bfloat162_rn(values.at[2 * i], values.at[2 * i + 1]);
      result.words[i] = reinterpret_cast<const uint32_t&>(pair);
    } else {
      const auto pair = __floats2half2_rn(values.at[2 * i], values.at[2 * i + 1]);
      result.words[i] = reinterpret_cast<const uint32_t&>(pair);
    }
  }
  return result;
}

// In assembly, since the compiler may split a plain 16-byte access into words.
template <Cache kCache>
__device__ __forceinline__ uint4 load_words(const uint4* source) {
  uint4 raw;
  if constexpr (kCache == Cache::Stream) {
    raw = __ldcs(source);
  } else {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(raw.x), "=r"(raw.y), "=r"(raw.z), "=r"(raw.w)
                 : "l"(source)
                 : "memory");
  }
  return raw;
}

template <Cache kCache>
__device__ __forceinline__ void store_words(uint4* target, const uint4& raw) {
  if constexpr (kCache == Cache::Stream) {
    __stcs(target, raw);
  } else {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(target),
                 "r"(raw.x),
                 "r"(raw.y),
                 "r"(raw.z),
                 "r"(raw.w)
                 : "memory");
  }
}

/// Values [at, at + lanes) of a row of `width` values. kAligned requires `row` and `at` on 16-byte
/// boundaries and a width of whole packs.
template <bool kAligned, Cache kCache = Cache::Keep, class T>
__device__ __forceinline__ Pack<T> load(const T* row, int at, int width) {
  Pack<T> result{};
  if constexpr (kAligned) {
    if (at < width) {
      const uint4 raw = load_words<kCache>(reinterpret_cast<const uint4*>(row + at));
      result = {raw.x, raw.y, raw.z, raw.w};
    }
  } else if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (at + i < width) {
        result.words[i] = reinterpret_cast<const uint32_t*>(row)[at + i];
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (at + i < width) {
        const uint32_t bits = reinterpret_cast<const uint16_t*>(row)[at + i];
        result.words[i / 2] |= bits << (16 * (i % 2));
      }
    }
  }
  return result;
}

template <bool kAligned, Cache kCache = Cache::Keep, class T>
__device__ __forceinline__ void store(T* row, int at, int width, const Pack<T>& values) {
  if constexpr (kAligned) {
    if (at < width) {
      auto* target = reinterpret_cast<uint4*>(row + at);
      const uint4 raw{values.words[0], values.words[1], values.words[2], values.words[3]};
      store_words<kCache>(target, raw);
    }
  } else if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (at + i < width) {
        reinterpret_cast<uint32_t*>(row)[at + i] = values.words[i];
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (at + i < width) {
        reinterpret_cast<uint16_t*>(row)[at + i] =
            static_cast<uint16_t>(values.words[i / 2] >> (16 * (i % 2)));
      }
    }
  }
}

}  // namespace reprise::cuda
