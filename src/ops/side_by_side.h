// Products of several inputs, each in its columns of one tensor, as one operator
// (reprise::side_by_side): what adapters add to projections that are one product.
//
// Note [What adapters add]
// Adapters are wide where the product is: a tensor of what they add, in float32 beside a 16-bit
// product, would be twice the product itself. Added rows by rows, it never exists as a whole, and
// its gradient, which is the sum's, is converted part by part.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace reprise::ops {

struct ColumnProduct {
  at::Tensor x;       ///< (..., in)
  at::Tensor weight;  ///< (out, in)
  int64_t start = 0;  ///< its first column
};

/// (..., width) in the type of the x: x weight^T from `start` on for each part, and zero elsewhere;
/// parts follow each other. All x have one type and, but for `in`, one shape. Kept for backward:
/// the weights, and each x whose weight is trained.
REPRISE_API at::Tensor side_by_side(const std::vector<ColumnProduct>& parts, int64_t width);

/// product (..., width) plus that, summed in the wider type and rounded once to the product's.
REPRISE_API at::Tensor add_side_by_side(const at::Tensor& product,
                                        const std::vector<ColumnProduct>& parts);

}  // namespace reprise::ops
