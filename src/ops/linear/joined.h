// Weights that are adjacent in memory, so that several linear layers of one input are one matmul.
//
// Each stays a parameter of its own, with its own name, gradient and optimizer state. Their
// gradients are parts of one matrix too.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>
#include <vector>

namespace reprise::ops {

/// Uninitialised matrices (rows[i], columns), or vectors (rows[i]) if columns is 0, adjacent in one
/// storage.
REPRISE_API std::vector<at::Tensor> adjacent_rows(const std::vector<int64_t>& rows,
                                                  int64_t columns,
                                                  const at::TensorOptions& options);

/// Whether tensors are contiguous, of one type, and adjacent in one storage without a gap. Moving
/// one of them alone to another device or type separates them.
REPRISE_API bool are_adjacent(at::TensorList parts);

/// All of them as one tensor that shares their memory. Only if are_adjacent(). Differentiable: each
/// part gets its rows of the gradient, without a copy.
REPRISE_API at::Tensor join_rows(at::TensorList parts);

}  // namespace reprise::ops
