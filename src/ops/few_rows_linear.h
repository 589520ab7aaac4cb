// Products of one step of decoding: a row or so for each sequence against a whole weight matrix.
//
// Note [Few rows]
// BLAS packs a weight before it multiplies with it. Many rows pay for that; with eight, packing
// takes nearly as long as multiplying, and decoding is nothing else. The kernel here reads every
// weight once, where it lies. oneDNN's packed weights are as fast, but are a second copy of the
// model. Each sum runs in an order that only the width decides, so that the result of a row does
// not depend on how many rows are beside it.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise {

/// x W^T + b as at::linear: x (..., in), W (out, in), b (out) or undefined. One position a row,
/// x (B, 1, in), few rows, float32 on the CPU and no gradients: by the kernel for few rows.
REPRISE_API at::Tensor apply_linear(const at::Tensor& x,
                                    const at::Tensor& weight,
                                    const at::Tensor& bias = {});

/// at::linear. On tensors without memory, which LibTorch's autocast does not know, it converts as
/// autocast would on the device that is planned for.
REPRISE_API at::Tensor linear_by_aten(const at::Tensor& x,
                                      const at::Tensor& weight,
                                      const at::Tensor& bias = {});

namespace detail {

/// Whether this processor has what the kernel needs (AVX2 and FMA).
REPRISE_API bool has_few_rows_kernel();

/// The kernel: contiguous float32 on the CPU, x (rows, in) -> (rows, out). Only if
/// has_few_rows_kernel().
REPRISE_API at::Tensor few_rows_linear(const at::Tensor& x,
                                       const at::Tensor& weight,
                                       const at::Tensor& bias);

}  // namespace detail

}  // namespace reprise
