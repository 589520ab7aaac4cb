#include "ops/cpu/small_batch_linear.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstdint>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace reprise::ops {

namespace {

// With more rows, BLAS is about as fast. (On one core of an AMD EPYC it is 1.8 times slower with 8
// rows, and 1.1 to 1.5 times with 48.)
constexpr int64_t kMostRows = 48;

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

#ifdef __x86_64__

#define REPRISE_AVX2 __attribute__((target("avx2,fma")))

// Rows of x and of the weight that are multiplied at once: twelve sums hide the latency of an FMA
// and, with their operands, fill the sixteen registers.
constexpr int kRowsAtOnce = 4, kOutsAtOnce = 3;
constexpr int64_t kLanes = 8;

struct Matrix {
  const float* data;
  int64_t width;

  const float* row(int64_t index) const { return data + index * width; }
};

REPRISE_AVX2 float sum_of(__m256 lanes) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

REPRISE_AVX2 __m256i first_lanes(int64_t count) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lanes);
}

// y[r * stride + o] = x.row(r) . w.row(o), for kRows rows and kOuts outputs.
template <int kRows, int kOuts>
REPRISE_AVX2 void multiply_block(const Matrix& x, const Matrix& w, float* y, int64_t stride) {
  __m256 sums[kRows][kOuts] = {};
  int64_t i = 0;
  for (; i + kLanes <= x.width; i += kLanes) {
    __m256 weights[kOuts];
#pragma GCC unroll 4
    for (int o = 0; o < kOuts; ++o) {
      weights[o] = _mm256_loadu_ps(w.row(o) + i);
      // Fetches the next block's weights meanwhile; past the last row the prefetch has no effect.
      _mm_prefetch(w.row(o + kOuts) + i, _MM_HINT_T0);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256 inputs = _mm256_loadu_ps(x.row(r) + i);
#pragma GCC unroll 4
      for (int o = 0; o < kOuts; ++o) {
        sums[r][o] = _mm256_fmadd_ps(inputs, weights[o], sums[r][o]);
      }
    }
  }
  const __m256i rest = first_lanes(x.width - i);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int o = 0; o < kOuts; ++o) {
      if (i < x.width) {
        sums[r][o] = _mm256_fmadd_ps(_mm256_maskload_ps(x.row(r) + i, rest),
                                     _mm256_maskload_ps(w.row(o) + i, rest),
                                     sums[r][o]);
      }
      y[r * stride + o] = sum_of(sums[r][o]);
    }
  }
}

using BlockKernel = void (*)(const Matrix&, const Matrix&, float*, int64_t);
// Indexed by the number of outputs - 1 and the number of rows - 1.
constexpr std::array<std::array<BlockKernel, kRowsAtOnce>, kOutsAtOnce> kBlockKernels = {{
    {multiply_block<1, 1>, multiply_block<2, 1>, multiply_block<3, 1>, multiply_block<4, 1>},
    {multiply_block<1, 2>, multiply_block<2, 2>, multiply_block<3, 2>, multiply_block<4, 2>},
    {multiply_block<1, 3>, multiply_block<2, 3>, multiply_block<3, 3>, multiply_block<4, 3>},
}};

// Computes the outputs [begin, end) of all rows.
void multiply(
    const at::Tensor& x, const at::Tensor& weight, at::Tensor& y, int64_t begin, int64_t end) {
  const int64_t width = x.size(1), rows = x.size(0), outs = weight.size(0);
  const Matrix inputs{x.const_data_ptr<float>(), width};
  const Matrix weights{weight.const_data_ptr<float>(), width};
  auto* const results = y.mutable_data_ptr<float>();
  for (int64_t out = begin; out < end; out += kOutsAtOnce) {
    const auto out_count = static_cast<size_t>(std::min<int64_t>(kOutsAtOnce, end - out));
    for (int64_t row = 0; row < rows; row += kRowsAtOnce) {
      const auto row_count = static_cast<size_t>(std::min<int64_t>(kRowsAtOnce, rows - row));
      kBlockKernels[out_count - 1][row_count - 1](
          {inputs.row(row), width}, {weights.row(out), width}, results + row * outs + out, outs);
    }
  }
}

#endif

}  // namespace

bool serves_small_batch(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return x.dim() == 3 && x.size(1) == 1 && x.size(0) <= kMostRows && !at::GradMode::is_enabled() &&
         is_plain(x) && is_plain(weight) && (!bias.defined() || is_plain(bias)) &&
         !at::autocast::is_autocast_enabled(at::kCPU) && has_small_batch_kernel();
}

#ifdef __x86_64__

bool has_small_batch_kernel() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}

at::Tensor small_batch_linear(const at::Tensor& x,
                              const at::Tensor& weight,
                              const at::Tensor& bias) {
  TORCH_INTERNAL_ASSERT(is_plain(x) && is_plain(weight) && x.dim() == 2 && weight.dim() == 2 &&
                        x.size(1) == weight.size(1));
  auto y = at::empty({x.size(0), weight.size(0)}, x.options());
  // The least work that is worth waking a thread for.
  constexpr int64_t kWeightsPerTask = 32768;
  const int64_t grain = kWeightsPerTask / std::max<int64_t>(weight.size(1), 1) + 1;
  at::parallel_for(0, weight.size(0), grain, [&](int64_t begin, int64_t end) {
    multiply(x, weight, y, begin, end);
  });
  return bias.defined() ? y.add_(bias) : y;
}

#else

bool has_small_batch_kernel() {
  return false;
}

at::Tensor small_batch_linear(const at::Tensor& x,
                              const at::Tensor& weight,
                              const at::Tensor& bias) {
  return at::linear(x, weight, bias);
}

#endif

}  // namespace reprise::ops
