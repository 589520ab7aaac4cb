// The second kernel of RMSNorm's gradient: adds the partial sums of dweight, one row from each
// block of the first kernel, in an order that depends on their number alone.

#include "ops/cuda/check.h"
#include "ops/cuda/rms_norm.cuh"

namespace reprise::cuda {

namespace {

/// A block adds 32 columns. Thread (x, y) adds every 32nd row of column x; then warp y adds column
/// y.
__global__ void __launch_bounds__(kWarp* kWarp)
    rms_norm_dweight(const RmsNormBackward job, int count) {
  __shared__ float sums[kWarp][kWarp + 1];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarp;
  const int64_t column = first + threadIdx.x;
  float sum = 0;
  if (column < job.width) {
#pragma unroll 8
    for (int row = static_cast<int>(threadIdx.y); row < count; row += kWarp) {
      sum += __ldcs(job.partials + row * job.width + column);
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const float total = warp_sum(sums[threadIdx.x][threadIdx.y]);
  const int64_t target = first + threadIdx.y;
  if (threadIdx.x != 0 || target >= job.width) {
    return;
  }
  switch (job.weight_type) {
    case Type::BFloat16:
      static_cast<__nv_bfloat16*>(job.dweight)[target] = __float2bfloat16_rn(total);
      break;
    case Type::Half:
      static_cast<__half*>(job.dweight)[target] = __float2half_rn(total);
      break;
    case Type::Float:
      static_cast<float*>(job.dweight)[target] = total;
      break;
  }
}

}  // namespace

void add_partials(const RmsNormBackward& job, int count, cudaStream_t stream) {
  const int blocks = narrow(divide_up(job.width, kWarp));
  rms_norm_dweight<<<blocks, dim3(kWarp, kWarp), 0, stream>>>(job, count);
  check_launch("rms_norm_dweight");
}

}  // namespace reprise::cuda
