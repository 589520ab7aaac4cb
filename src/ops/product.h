// Matrix products of our operators' own (reprise::product and its like): ATen's, or on a GPU
// cublasLt's with an algorithm of our choice.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// As they lie, or transposed.
struct Transposed {
  bool a = false, b = false;
};

/// a b, of matrices of one type. Below autograd.
REPRISE_API at::Tensor product(const at::Tensor& a,
                               const at::Tensor& b,
                               Transposed transposed = {});

/// out = a b; out may be a part of a larger matrix, values of a row adjacent. Of their type, or on
/// a GPU float32.
REPRISE_API void product_into(at::Tensor& out,
                              const at::Tensor& a,
                              const at::Tensor& b,
                              Transposed transposed = {});

/// sum += a b. The sum is of their type, or float32 where a GPU multiplies narrow types.
REPRISE_API void add_product(at::Tensor& sum,
                             const at::Tensor& a,
                             const at::Tensor& b,
                             Transposed transposed = {});

}  // namespace reprise::ops
