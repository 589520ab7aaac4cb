// Matrix products for our operators and losses (reprise::product_): by ATen, or on a GPU by
// cublasLt with an algorithm of our choice.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// Whether an operand is multiplied as its transpose.
struct Transposed {
  bool a = false, b = false;
};

/// a b, for matrices of one type. Autograd does not see it.
REPRISE_API at::Tensor matmul(const at::Tensor& a, const at::Tensor& b, Transposed transposed = {});

/// out = a b. `out` may be a part of a larger matrix, as long as the values of a row are adjacent.
/// It has the type of a and b, or on a GPU float32.
REPRISE_API void matmul_into(at::Tensor& out,
                             const at::Tensor& a,
                             const at::Tensor& b,
                             Transposed transposed = {});

/// sum += a b. The sum has the type of a and b, or on a GPU float32.
REPRISE_API void add_matmul(at::Tensor& sum,
                            const at::Tensor& a,
                            const at::Tensor& b,
                            Transposed transposed = {});

}  // namespace reprise::ops
