// Elementwise passes that read one type and write another: a product with a factor in device
// memory, and a sum. A thread reads all of its values before it writes, so the output may be an
// input.
#include "ops/cuda/check.h"
#include "ops/cuda/vectors.cuh"

#include <algorithm>

namespace reprise::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kValues = 8;  // values per thread: whole packs of every type

template <class T>
__device__ __forceinline__ void read(float (&values)[kValues], const T* from, int count) {
  if (count == kValues) {
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

template <class T>
__device__ __forceinline__ void write(T* to, const float (&values)[kValues], int count) {
  if (count == kValues) {
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
  return (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kValues;
}

__device__ __forceinline__ int count_from(int64_t start, int64_t all) {
  return static_cast<int>(max(int64_t{0}, min(int64_t{kValues}, all - start)));
}

template <class In, class Out>
__global__ void __launch_bounds__(kThreads) scale_kernel(const Scale job) {
  const int64_t start = start_of_thread();
  const int count = count_from(start, job.count);
  if (count == 0) {
    return;
  }
  const float factor = *job.factor;
  float values[kValues];
  read(values, static_cast<const In*>(job.in) + start, count);
#pragma unroll
  for (float& value : values) {
    value *= factor;
  }
  write(static_cast<Out*>(job.out) + start, values, count);
}

template <class T, class Added>
__global__ void __launch_bounds__(kThreads) add_kernel(const AddRounded job) {
  const int64_t start = start_of_thread();
  const int count = count_from(start, job.count);
  if (count == 0) {
    return;
  }
  float values[kValues], added[kValues];
  read(values, static_cast<const T*>(job.x) + start, count);
  read(added, static_cast<const Added*>(job.added) + start, count);
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    values[i] += added[i];
  }
  write(static_cast<T*>(job.out) + start, values, count);
}

int blocks_for(int64_t count) {
  constexpr int64_t kBlockValues = int64_t{kThreads} * kValues;
  return narrow((count + kBlockValues - 1) / kBlockValues);
}

}  // namespace

bool can_launch(const Scale& job) {
  return are_aligned({job.in, job.out});
}

void launch(const Scale& job, cudaStream_t stream) {
  if (job.count <= 0) {
    return;
  }
  with_type(job.in_type, [&]<class In>(std::type_identity<In>) {
    with_type(job.out_type, [&]<class Out>(std::type_identity<Out>) {
      scale_kernel<In, Out><<<blocks_for(job.count), kThreads, 0, stream>>>(job);
    });
  });
  check_launch("scale");
}

bool can_launch(const AddRounded& job) {
  return are_aligned({job.x, job.added, job.out});
}

void launch(const AddRounded& job, cudaStream_t stream) {
  if (job.count <= 0) {
    return;
  }
  with_type(job.type, [&]<class T>(std::type_identity<T>) {
    with_type(job.added_type, [&]<class Added>(std::type_identity<Added>) {
      add_kernel<T, Added><<<blocks_for(job.count), kThreads, 0, stream>>>(job);
    });
  });
  check_launch("add_rounded");
}

}  // namespace reprise::cuda
