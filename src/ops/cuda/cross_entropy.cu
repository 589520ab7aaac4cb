// Cross entropy of rows and its gradient with one read and one write of memory. Each block loops
// over rows and writes the results of a row between its two passes.
#include "ops/cuda/cross_entropy.cuh"

#include "ops/cuda/check.h"
#include "ops/cuda/kernels.h"

#include <algorithm>

namespace reprise::cuda {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kLeastThreads = 128;
constexpr int kStaticBytes = 1024;  // upper bound of the kernel's static shared memory

template <class T, bool kGradient, bool kEntropy>
__global__ void __launch_bounds__(kMostThreads, 1)
    cross_entropy_kernel(const CrossEntropy job, const int slots) {
  extern __shared__ uint4 shared[];
  __shared__ SoftmaxSums partials[2][kMostThreads / kWarp];
  static_assert(sizeof(partials) <= kStaticBytes);
  const int threads = static_cast<int>(blockDim.x);
  const ThreadSlots own{shared, static_cast<int>(threadIdx.x), threads, slots * threads};
  const int width = static_cast<int>(job.width);
  T* const logits = static_cast<T*>(job.logits);
  const float factor = job.scale * kLog2E;

  int64_t at = blockIdx.x;
  Row<T> row(logits, at, job.rows, width);
  for (int i = own.thread; i < kSlots * threads; i += threads) {
    fetch(own, i, row);
  }
  auto target = static_cast<int>(job.targets[at]);
  auto target_logit = static_cast<float>(row.values[target]);

  for (int turn = 0; at < job.rows; turn ^= 1) {
    // The next row's target is loaded one pass before its logit, and the logit one pass before use.
    const int64_t next_at = at + gridDim.x;
    const Row<T> next(logits, next_at, job.rows, width);
    const bool has_next = next_at < job.rows;
    const int next_target = has_next ? static_cast<int>(job.targets[next_at]) : 0;

    Share<T> share(row, own, width);
    Reading<kEntropy, !kGradient> reading{target, target_logit, factor};
    reading.pass(share, own, next);
    const float next_logit = has_next ? static_cast<float>(next.values[next_target]) : 0.0f;

    bool is_beaten = reading.is_beaten;
    const SoftmaxSums sums = over_block(reading.sums, is_beaten, partials[turn], factor);
    const float gap = sums.largest - target_logit;
    const float p = power_of_2(-gap * factor) / sums.sum;
    const float weight = job.weighted ? p : 1.0f;
    if (own.thread == 0) {
      const float log_sum = logf(sums.sum);
      // p log p is 0 at 0, where the logit may be -inf.
      job.losses[at] = weight == 0.0f ? 0.0f : weight * fmaf(job.scale, gap, log_sum);
      if (job.log_sums != nullptr) {
        job.log_sums[at] = fmaf(job.scale, sums.largest, log_sum);
      }
      if constexpr (kEntropy) {
        job.entropies[at] = log_sum - kLn2 * sums.moment / sums.sum;
      }
      if (job.hits != nullptr) {
        job.hits[at] = is_beaten ? 0.0f : 1.0f;
      }
    }
    if constexpr (kGradient) {
      const Writing writing{target, sums.largest, factor, weight, weight / sums.sum};
      writing.pass(share, own, next);
    }
    at = next_at;
    row = next;
    target = next_target;
    target_logit = next_logit;
  }
}

int attribute(cudaDeviceAttr which) {
  int device = 0;
  int value = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

// The fewest threads that hold a whole row, so that more blocks share a multiprocessor. The order
// of a sum depends on the number of threads, so that number depends on the row's width alone.
int threads_for(int packs) {
  int threads = kLeastThreads;
  while (threads < kMostThreads && threads * (kSlots + kHeld) < packs) {
    threads *= 2;
  }
  return threads;
}

template <class T, bool kGradient, bool kEntropy>
void launch_typed(const CrossEntropy& job, cudaStream_t stream) {
  const auto kernel = cross_entropy_kernel<T, kGradient, kEntropy>;
  const int packs = narrow(job.width) / kLanes<T>;
  const int threads = threads_for(packs);
  const int slot_bytes = threads * kPackBytes;
  const int available = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) - kStaticBytes;
  const int slots = std::min({kSlots, available / slot_bytes, (packs + threads - 1) / threads});
  const int bytes = slots * slot_bytes;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "cross_entropy: shared memory");
  check(cudaFuncSetAttribute(
            kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
        "cross_entropy: shared memory");
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, bytes),
        "cross_entropy: occupancy");
  const int64_t resident = int64_t{blocks} * attribute(cudaDevAttrMultiProcessorCount);
  const auto grid = static_cast<unsigned>(std::min(job.rows, std::max<int64_t>(resident, 1)));
  kernel<<<grid, threads, bytes, stream>>>(job, slots);
  check_launch("cross_entropy");
}

}  // namespace

void launch(const CrossEntropy& job, cudaStream_t stream) {
  if (job.rows <= 0 || job.width <= 0) {
    return;
  }
  with_type(job.type, [&]<class T>(std::type_identity<T>) {
    with_flag(!job.keep_logits, [&](auto gradient) {
      with_flag(job.entropies != nullptr,
                [&](auto entropy) { launch_typed<T, gradient.value, entropy.value>(job, stream); });
    });
  });
}

}  // namespace reprise::cuda
