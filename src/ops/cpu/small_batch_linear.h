// A linear layer over few rows on the CPU: one step of decoding multiplies one row per sequence
// with a whole weight matrix.
//
// Note [Small batches on the CPU]
// BLAS packs a weight before it multiplies with it. That pays for many rows; with eight, packing
// takes nearly as long as multiplying, and decoding does little else. This kernel reads every
// weight once, in place. oneDNN's prepacked weights are as fast but are a second copy of the model.
// The order of each sum depends on the width alone, so the result of a row does not depend on how
// many other rows there are.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// Whether this processor has what the kernel needs: AVX2 and FMA.
REPRISE_API bool has_small_batch_kernel();

/// Whether the kernel serves at::linear(x, weight, bias): x (B, 1, in) with few rows, contiguous
/// float32 on the CPU, no gradients and no autocast.
bool serves_small_batch(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

/// The kernel: contiguous float32 on the CPU, x (rows, in) -> (rows, out). Only if
/// has_small_batch_kernel().
REPRISE_API at::Tensor small_batch_linear(const at::Tensor& x,
                                          const at::Tensor& weight,
                                          const at::Tensor& bias);

}  // namespace reprise::ops
