// Elementwise passes that read one type and write another: a product with a factor in device
// memory, and a sum. A thread reads all of its values before it writes, so the output may be an
// input.
#include "ops/cuda/check.h"
#include "ops/cuda/elementwise.cuh"

namespace reprise::cuda {

namespace {

template <class In, class Out>
__global__ void __launch_bounds__(kElementwiseThreads) scale_kernel(const Scale job) {
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
__global__ void __launch_bounds__(kElementwiseThreads) add_kernel(const AddRounded job) {
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
      scale_kernel<In, Out><<<blocks_for(job.count), kElementwiseThreads, 0, stream>>>(job);
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
      add_kernel<T, Added><<<blocks_for(job.count), kElementwiseThreads, 0, stream>>>(job);
    });
  });
  check_launch("add_rounded");
}

}  // namespace reprise::cuda
