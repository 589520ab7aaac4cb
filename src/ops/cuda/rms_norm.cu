// RMSNorm of rows. A row is read once and stays in registers between the sum and the scaling; one
// that is too wide for that is read again, from the second-level cache.

#include "ops/cuda/check.h"
#include "ops/cuda/rms_norm.cuh"

namespace reprise::cuda {

namespace {

constexpr int kThreads = 512;    // most threads of a block
constexpr int kBlockRows = 128;  // threads of a block that holds several rows
constexpr int kNarrow = 4;       // packs per thread for rows up to 2 KiB: many rows per warp
constexpr int kWide = 8;         // packs per thread for other rows: a warp reads 4 KiB at once

template <class T>
__device__ __forceinline__ float squares(const Pack<T>& values, float sum) {
  const auto floats = unpack(values);
#pragma unroll
  for (int i = 0; i < kLanes<T>; ++i) {
    sum += floats.at[i] * floats.at[i];
  }
  return sum;
}

template <class T, bool kAligned>
__device__ __forceinline__ void store_normed(
    const RmsNorm& job, T* y, int at, int width, const Pack<T>& values, float scale) {
  const auto weight = load_factors<T, kAligned>(job, at, width);
  auto floats = unpack(values);
#pragma unroll
  for (int i = 0; i < kLanes<T>; ++i) {
    floats.at[i] = floats.at[i] * scale * weight.at[i];
  }
  store<kAligned>(y, at, width, pack<T>(floats));
}

__device__ __forceinline__ float scale_of(const RmsNorm& job, float sum) {
  return rsqrtf(sum / static_cast<float>(job.width) + job.epsilon);
}

template <class T, bool kAligned, int kPacks>
__global__ void __launch_bounds__(kThreads) rms_norm_kernel(const RmsNorm job) {
  __shared__ GroupSum sum;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  // Groups past the last row take part in the barrier, with an empty row.
  const int width = row < job.rows ? static_cast<int>(job.width) : 0;
  const T* x = static_cast<const T*>(job.x) + row * job.width;
  const int first = static_cast<int>(threadIdx.x) * kLanes<T>;
  const int step = static_cast<int>(blockDim.x) * kLanes<T>;

  Pack<T> packs[kPacks];
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    packs[k] = load<kAligned, Cache::Stream>(x, first + k * step, width);
  }
  float squared = 0;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    squared = squares(packs[k], squared);
  }
  const float scale = scale_of(job, sum(squared, 0));
  if (width > 0 && threadIdx.x == 0) {
    job.scale[row] = scale;
  }
  T* y = static_cast<T*>(job.y) + row * job.width;
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    store_normed<T, kAligned>(job, y, first + k * step, width, packs[k], scale);
  }
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads) rms_norm_looped(const RmsNorm job) {
  __shared__ GroupSum sum;
  const int64_t row = blockIdx.x;
  const int width = static_cast<int>(job.width);
  const T* x = static_cast<const T*>(job.x) + row * job.width;
  T* y = static_cast<T*>(job.y) + row * job.width;
  const int first = static_cast<int>(threadIdx.x) * kLanes<T>;
  constexpr int kStep = kThreads * kLanes<T>;

  float squared = 0;
#pragma unroll 4
  for (int at = first; at < width; at += kStep) {
    squared = squares(load<kAligned>(x, at, width), squared);
  }
  const float scale = scale_of(job, sum(squared, 0));
  if (threadIdx.x == 0) {
    job.scale[row] = scale;
  }
#pragma unroll 4
  for (int at = first; at < width; at += kStep) {
    const auto values = load<kAligned, Cache::Stream>(x, at, width);
    store_normed<T, kAligned>(job, y, at, width, values, scale);
  }
}

template <class T, bool kAligned>
void launch_norm(const RmsNorm& job, cudaStream_t stream) {
  const int64_t packs = divide_up(job.width, kLanes<T>);
  const bool is_narrow = packs <= kWarp * kNarrow;
  const int64_t group = group_of(packs, is_narrow ? kNarrow : kWide);
  if (group > kThreads) {
    rms_norm_looped<T, kAligned><<<narrow(job.rows), kThreads, 0, stream>>>(job);
    return;
  }
  const int64_t rows = std::max<int64_t>(1, group > kWarp ? 1 : kBlockRows / group);
  const dim3 threads(narrow(group), narrow(rows));
  const int blocks = narrow(divide_up(job.rows, rows));
  if (is_narrow) {
    rms_norm_kernel<T, kAligned, kNarrow><<<blocks, threads, 0, stream>>>(job);
  } else {
    rms_norm_kernel<T, kAligned, kWide><<<blocks, threads, 0, stream>>>(job);
  }
}

}  // namespace

void launch(const RmsNorm& job, cudaStream_t stream) {
  if (job.rows == 0 || job.width == 0) {
    return;
  }
  const int64_t bytes = bytes_of(job.type);
  const bool is_aligned = are_aligned({job.x, job.weight, job.y}) && job.width * bytes % 16 == 0;
  narrow(job.width);
  with_type(job.type, [&](auto type) {
    with_flag(is_aligned, [&](auto aligned) {
      launch_norm<typename decltype(type)::type, decltype(aligned)::value>(job, stream);
    });
  });
  check_launch("rms_norm");
}

}  // namespace reprise::cuda
