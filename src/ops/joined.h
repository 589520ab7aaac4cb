// Weights that lie one after the other, so that several projections of one input are one product.
//
// Each remains a parameter of its own: its name in checkpoints, its gradient and its optimizer
// state do not change. Gradients come as parts of one matrix too.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>
#include <vector>

namespace reprise::ops {

/// Uninitialised matrices (rows[i], columns), or vectors (rows[i]) if columns is 0, one after the
/// other in one storage.
REPRISE_API std::vector<at::Tensor> adjacent_rows(const std::vector<int64_t>& rows,
                                                  int64_t columns,
                                                  const at::TensorOptions& options);

/// Whether they lie so: contiguous, of one type, in one storage, without a gap. Moving one of them
/// alone takes them apart.
REPRISE_API bool are_adjacent(at::TensorList parts);

/// All of them as one tensor that shares their memory. Only if are_adjacent(). Differentiable:
/// parts of one gradient reach the parts, without a copy.
REPRISE_API at::Tensor join_rows(at::TensorList parts);

}  // namespace reprise::ops
