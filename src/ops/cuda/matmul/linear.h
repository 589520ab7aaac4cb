// Matrix products and linear layers of tensors: what the operators that contain one share.
#pragma once

#include "ops/cuda/matmul/matmul.h"

#include <ATen/core/Tensor.h>

#include <optional>

namespace reprise::cuda {

/// Runs a matrix product on the stream of `out`, with a workspace that it allocates.
void run_matmul(Matmul job, const at::Tensor& out);

/// x weight^T + bias + residual in the type of x; the sums are part of the product's epilogue.
/// Weight and bias may be of another type. Only where ops::serves_linear().
at::Tensor run_linear(const at::Tensor& x,
                      const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias,
                      const std::optional<at::Tensor>& residual);

}  // namespace reprise::cuda
