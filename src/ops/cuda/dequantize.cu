// Quantised weights to matrices. A thread writes kValues adjacent values, which share a scale:
// blocks are multiples of them. Products and sums are rounded one by one, as on the CPU.
#include "ops/cuda/check.h"
#include "ops/cuda/elementwise.cuh"

namespace reprise::cuda {

namespace {

constexpr int kNestedBlock = 256;
constexpr float kInt8Step = 7.874015718698502e-3f;

__device__ __forceinline__ float scale_of(const Dequantize& job, int64_t block) {
  if (job.scales != nullptr) {
    return job.scales[block];
  }
  const float number = job.nested_map[job.scale_codes[block]];
  return __fadd_rn(__fmul_rn(number, job.nested_scales[block / kNestedBlock]), job.offset);
}

template <class T>
__global__ void __launch_bounds__(kElementwiseThreads)
    dequantize_4bit_kernel(const Dequantize job) {
  __shared__ float numbers[16];
  if (threadIdx.x < 16) {
    numbers[threadIdx.x] = job.numbers[threadIdx.x];
  }
  __syncthreads();
  const int64_t start = start_of_thread();
  const int count = count_from(start, job.count);
  if (count == 0) {
    return;
  }
  const float scale = scale_of(job, start / job.block);
  const auto* bytes = static_cast<const uint8_t*>(job.packed) + start / 2;
  float values[kValues];
#pragma unroll
  for (int i = 0; i < kValues; i += 2) {
    const int byte = i < count ? bytes[i / 2] : 0;
    values[i] = __fmul_rn(numbers[byte >> 4], scale);
    values[i + 1] = __fmul_rn(numbers[byte & 15], scale);
  }
  write(static_cast<T*>(job.out) + start, values, count);
}

template <class T>
__global__ void __launch_bounds__(kElementwiseThreads)
    dequantize_int8_kernel(const Dequantize job) {
  const int64_t start = start_of_thread();
  const int count = count_from(start, job.count);
  if (count == 0) {
    return;
  }
  const auto* codes = static_cast<const int8_t*>(job.packed) + start;
  int64_t row = start / job.columns;
  int64_t left = (row + 1) * job.columns - start;  // values of this row
  float values[kValues];
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    if (left == 0) {
      ++row;
      left = job.columns;
    }
    --left;
    values[i] = i < count ? __fmul_rn(__fmul_rn(codes[i], job.scales[row]), kInt8Step) : 0.0f;
  }
  write(static_cast<T*>(job.out) + start, values, count);
}

}  // namespace

bool can_launch(const Dequantize& job) {
  return are_aligned({job.out}) && job.block % kValues == 0;
}

void launch(const Dequantize& job, cudaStream_t stream) {
  if (job.count <= 0) {
    return;
  }
  const int blocks = blocks_for(job.count);
  with_type(job.type, [&]<class T>(std::type_identity<T>) {
    if (job.is_int8) {
      dequantize_int8_kernel<T><<<blocks, kElementwiseThreads, 0, stream>>>(job);
    } else {
      dequantize_4bit_kernel<T><<<blocks, kElementwiseThreads, 0, stream>>>(job);
    }
  });
  check_launch("dequantize");
}

}  // namespace reprise::cuda
