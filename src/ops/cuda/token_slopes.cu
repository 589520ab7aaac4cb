// The gradient of logits, given gradients of log-probabilities and entropies, written over the
// logits with one read and one write of memory. The sums over a row are inputs, so every value is
// computed by itself.
#include "ops/cuda/check.h"
#include "ops/cuda/softmax_sums.cuh"
#include "ops/cuda/vectors.cuh"

namespace reprise::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kPacks = 4;  // per thread, all read before the first is used

template <class T>
inline constexpr int kSpan = kThreads* kPacks* kLanes<T>;  // values of a block, all of one row

/// What the gradients of one row need.
struct Slopes {
  int target;
  float factor, log2_sum;  // log2 p = factor * logit - log2_sum
  float grad, grad_entropy, constant;

  __device__ __forceinline__ Slopes(const TokenSlopes& job, int64_t row)
      : target(static_cast<int>(job.targets[row])),
        factor(job.scale * kLog2E),
        log2_sum(job.log_sums[row] * kLog2E),
        grad(job.grad_logprobs != nullptr ? job.grad_logprobs[row] : 0.0f),
        grad_entropy(job.grad_entropies != nullptr ? job.grad_entropies[row] * kLn2 : 0.0f),
        constant(-grad) {
    if (job.grad_entropies != nullptr) {
      constant -= job.grad_entropies[row] * job.entropies[row];
    }
  }

  __device__ __forceinline__ float of(float logit, int at) const {
    // Finite where the logit is -inf, so that 0 times the other factor is 0.
    const float exponent = at_least(fmaf(factor, logit, -log2_sum), kNothing);
    const float slope = power_of_2(exponent) * fmaf(-grad_entropy, exponent, constant);
    return at == target ? slope + grad : slope;
  }
};

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads) token_slopes_kernel(const TokenSlopes job) {
  const int64_t row = blockIdx.x;
  const int width = static_cast<int>(job.width);
  const int first =
      static_cast<int>(blockIdx.y) * kSpan<T> + static_cast<int>(threadIdx.x) * kLanes<T>;
  T* const logits = static_cast<T*>(job.logits) + row * job.width;
  Pack<T> packs[kPacks];
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    packs[i] = load<kAligned, Cache::Stream>(logits, first + i * kThreads * kLanes<T>, width);
  }
  const Slopes slopes(job, row);
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int at = first + i * kThreads * kLanes<T>;
    auto values = unpack(packs[i]);
#pragma unroll
    for (int k = 0; k < kLanes<T>; ++k) {
      values.at[k] = slopes.of(values.at[k], at + k);
    }
    store<kAligned>(logits, at, width, pack(values));
  }
}

}  // namespace

void launch(const TokenSlopes& job, cudaStream_t stream) {
  if (job.rows <= 0 || job.width <= 0) {
    return;
  }
  const bool is_aligned = are_aligned({job.logits}) && job.width * bytes_of(job.type) % 16 == 0;
  const int width = narrow(job.width);
  with_type(job.type, [&]<class T>(std::type_identity<T>) {
    const dim3 grid(static_cast<unsigned>(narrow(job.rows)),
                    static_cast<unsigned>((width - 1) / kSpan<T> + 1));
    with_flag(is_aligned, [&](auto aligned) {
      token_slopes_kernel<T, aligned.value><<<grid, kThreads, 0, stream>>>(job);
    });
  });
  check_launch("token_slopes");
}

}  // namespace reprise::cuda
