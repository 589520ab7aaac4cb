// Numbers that decide which GPU kernel runs and how much scratch memory it takes.
//
// The CUDA operators (ops/cuda/) and their stand-ins on the meta device (ops/meta/), which predict
// the bytes of a step, both read them here, so that a change cannot move one without the other.
// Without LibTorch's headers, so that nvcc can include it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace reprise::ops {

/// Scratch memory of one matrix product by cublasLt; enough for it to choose freely on Hopper.
inline constexpr int64_t kMatmulWorkspaceBytes = int64_t{32} << 20;

/// Limits of LibTorch's flash attention kernels, and of cuDNN's.
inline constexpr int64_t kFlashMaxHeadDim = 256;
inline constexpr int64_t kFlashHeadDimMultiple = 8;  ///< they load 16 bytes at a time
inline constexpr int64_t kCudnnMaxHeadDim = 128;

/// Rows of float32 partial sums that the backward of RMSNorm writes for the weight's gradient, one
/// for each block of threads: as many blocks as the device holds at once, then as few as need no
/// more rounds than those, so that all blocks end together.
inline int64_t rms_norm_partial_rows(int64_t rows, int64_t width, int64_t multiprocessors) {
  constexpr int64_t kBlockValues = 2048;  // 16-bit values that the threads of one block hold
  const auto divide_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  if (rows == 0 || width == 0) {
    return 0;
  }
  const int64_t blocks = width <= kBlockValues ? 4 : width <= 2 * kBlockValues ? 2 : 1;
  const int64_t steps = divide_up(rows, std::max<int64_t>(1, kBlockValues / width));
  return divide_up(steps, divide_up(steps, multiprocessors * blocks));
}

/// The planner's estimate of that number, for a GPU whose multiprocessors it does not know.
inline constexpr int64_t kPlannedNormPartialRows = 512;

}  // namespace reprise::ops
