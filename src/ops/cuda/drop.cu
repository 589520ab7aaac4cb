// Dropout whose choice of values follows from a seed: Note [Dropout without a mask].
#include "ops/cuda/check.h"
#include "ops/cuda/elementwise.cuh"
#include "ops/drop_bits.h"

namespace reprise::cuda {

namespace {

template <class In, class Out, bool kAligned>
__global__ void __launch_bounds__(kElementwiseThreads) drop_kernel(const Drop job) {
  const int64_t start = start_of_thread();
  const int count = count_from(start, job.count);
  if (count == 0) {
    return;
  }
  const auto seed = static_cast<uint64_t>(*job.seed);
  const auto first = static_cast<uint64_t>(job.first + start);
  Out* to = static_cast<Out*>(job.out) + start;
  float values[kValues], sums[kValues] = {};
  read<kAligned>(values, static_cast<const In*>(job.x) + start, count);
  if (job.adds) {
    read<kAligned>(sums, to, count);
  }
  uint64_t bits = ops::drop_bits(seed, first / 2);
#pragma unroll
  for (int i = 0; i < kValues; ++i) {
    const uint64_t number = first + static_cast<uint64_t>(i);
    if (i > 0 && number % 2 == 0) {
      bits = ops::drop_bits(seed, number / 2);
    }
    const auto own = static_cast<uint32_t>(number % 2 == 0 ? bits : bits >> 32);
    sums[i] += own >= job.threshold ? values[i] : 0.0f;
  }
  write<kAligned>(to, sums, count);
}

}  // namespace

void launch(const Drop& job, cudaStream_t stream) {
  if (job.count <= 0) {
    return;
  }
  with_type(job.in_type, [&]<class In>(std::type_identity<In>) {
    with_type(job.out_type, [&]<class Out>(std::type_identity<Out>) {
      with_flag(are_aligned({job.x, job.out}), [&]<bool kAligned>(std::bool_constant<kAligned>) {
        drop_kernel<In, Out, kAligned>
            <<<blocks_for(job.count), kElementwiseThreads, 0, stream>>>(job);
      });
    });
  });
  check_launch("drop");
}

}  // namespace reprise::cuda
