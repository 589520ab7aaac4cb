// Values times one factor that lies on the device, rounded to another type as they are written.
#include "ops/cuda/check.h"
#include "ops/cuda/vectors.cuh"

#include <algorithm>

namespace reprise::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kValues = 8;  // of a thread: whole packs of either type

// Reads all that it takes before it writes, so `out` may be `in`.
template <class In, class Out>
__global__ void __launch_bounds__(kThreads) scale_kernel(const Scale job) {
  const int64_t start = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kValues;
  if (start >= job.count) {
    return;
  }
  const float factor = *job.factor;
  const In* in = static_cast<const In*>(job.in) + start;
  Out* out = static_cast<Out*>(job.out) + start;
  const auto left = static_cast<int>(min(static_cast<int64_t>(kValues), job.count - start));
  float values[kValues];
  if (left == kValues) {
#pragma unroll
    for (int i = 0; i < kValues; i += kLanes<In>) {
      const auto read = unpack(load<true, Cache::Stream>(in, i, kValues));
#pragma unroll
      for (int k = 0; k < kLanes<In>; ++k) {
        values[i + k] = read.at[k] * factor;
      }
    }
#pragma unroll
    for (int i = 0; i < kValues; i += kLanes<Out>) {
      Floats<Out> written;
#pragma unroll
      for (int k = 0; k < kLanes<Out>; ++k) {
        written.at[k] = values[i + k];
      }
      store<true>(out, i, kValues, pack<Out>(written));
    }
    return;
  }
  for (int i = 0; i < left; ++i) {
    out[i] = static_cast<Out>(static_cast<float>(in[i]) * factor);
  }
}

}  // namespace

bool can_launch(const Scale& job) {
  return are_aligned({job.in, job.out});
}

void launch(const Scale& job, cudaStream_t stream) {
  if (job.count <= 0) {
    return;
  }
  constexpr int64_t kBlockValues = int64_t{kThreads} * kValues;
  const int blocks = narrow((job.count + kBlockValues - 1) / kBlockValues);
  with_type(job.in_type, [&]<class In>(std::type_identity<In>) {
    with_type(job.out_type, [&]<class Out>(std::type_identity<Out>) {
      scale_kernel<In, Out><<<blocks, kThreads, 0, stream>>>(job);
    });
  });
  check_launch("scale");
}

}  // namespace reprise::cuda
