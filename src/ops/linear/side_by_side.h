// Outputs of several linear layers side by side in one tensor, as one operator
// (reprise::side_by_side): what LoRA adapters add to projections that are computed as one.
//
// Note [What adapters add]
// The adapters' output is as wide as the projections' output, and float32 beside 16-bit values: as
// a whole it would take twice the memory. It is added to the output a piece of rows at a time, so
// it never exists as a whole. Its gradient, which is that of the sum, is converted part by part.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace reprise::ops {

struct ColumnProduct {
  at::Tensor x;       ///< (..., in)
  at::Tensor weight;  ///< (out, in)
  int64_t start = 0;  ///< first column of its output
};

/// (..., width) in the type of the x: x weight^T of each part in its columns, and zero elsewhere.
/// Parts are in the order of their columns. All x have one type and one shape except for `in`.
/// Saved for backward: the weights, and each x whose weight is trained.
REPRISE_API at::Tensor side_by_side(const std::vector<ColumnProduct>& parts, int64_t width);

/// product (..., width) + side_by_side(parts), summed in the wider type and rounded once to the
/// type of the product.
REPRISE_API at::Tensor add_side_by_side(const at::Tensor& product,
                                        const std::vector<ColumnProduct>& parts);

}  // namespace reprise::ops
