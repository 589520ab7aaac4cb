// float32 matrix products on the CPU by oneDNN instead of MKL. LibTorch has both in it.
//
// Note [Two libraries for products]
// ATen multiplies float32 by MKL. On AMD's processors MKL has AVX2 kernels only; oneDNN also uses
// AVX-512 there, and takes less than half the time (benchmarks/results/products-cpu.md). Sums are
// added in another order, so the choice must not change between forward and recompute, or between a
// run and its repetition: it depends on the processor and the sizes, and never on a measurement.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// Whether oneDNN multiplies in this process: on AMD's processors with AVX-512, unless
/// at::globalContext().setUserEnabledMkldnn(false) or ONEDNN_MAX_CPU_ISA forbids it.
REPRISE_API bool has_onednn_matmul();

/// Whether oneDNN computes a b: float32 matrices on the CPU, large enough, each stored whole as it
/// is or transposed.
REPRISE_API bool serves_onednn_matmul(const at::Tensor& a, const at::Tensor& b);

/// out = a b, or out += a b, into a contiguous matrix. Only if serves_onednn_matmul(). Autograd
/// does not see it.
void onednn_matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool adds);

}  // namespace reprise::ops
