// Matrix products of tensors: what the operators with a projection share.
#pragma once

#include "ops/cuda/matmul.h"
#include "ops/cuda/tensors.h"

#include <optional>

namespace reprise::cuda {

/// Runs a product whose workspace it provides, on the stream of `out`.
void multiply(Matmul job, const at::Tensor& out);

/// Whether project() takes these: types that kernels have, and something to compute.
bool projects(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias);

/// x weight^T + bias + stream in the type of x, the sums in the product's epilogue. Weight and bias
/// may be of another type.
at::Tensor project(const at::Tensor& x,
                   const at::Tensor& weight,
                   const std::optional<at::Tensor>& bias,
                   const std::optional<at::Tensor>& stream);

}  // namespace reprise::cuda
