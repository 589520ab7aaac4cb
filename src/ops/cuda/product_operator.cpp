// Products and projections through cublasLt.
#include "ops/cuda/products.h"
#include "ops/reference.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>

namespace reprise::cuda {

namespace {

// A matrix whose rows' values are adjacent, or that lies so transposed.
struct Operand {
  at::Tensor matrix;
  bool transposed;
};

// Rows that do not overlap, their values adjacent.
bool has_rows(const at::Tensor& matrix) {
  return matrix.stride(1) == 1 && matrix.stride(0) >= matrix.size(1);
}

Operand operand_of(const at::Tensor& matrix, bool transposed) {
  if (has_rows(matrix)) {
    return {matrix, transposed};
  }
  const auto turned = matrix.t();
  return has_rows(turned) ? Operand{turned, !transposed} : Operand{matrix.contiguous(), transposed};
}

// contiguous() leaves the stride of a single row as it was.
int64_t row_stride(const at::Tensor& matrix) {
  return std::max(matrix.stride(0), matrix.size(1));
}

void product_(at::Tensor& out,
              const at::Tensor& a,
              const at::Tensor& b,
              bool transpose_a,
              bool transpose_b,
              bool adds) {
  const bool is_served = has_kernel(a) && b.scalar_type() == a.scalar_type() && a.numel() > 0 &&
                         b.numel() > 0 && has_rows(out) &&
                         (out.scalar_type() == a.scalar_type() || out.scalar_type() == at::kFloat);
  if (!is_served) {
    ops::reference::product_(out, a, b, transpose_a, transpose_b, adds);
    return;
  }
  const c10::DeviceGuard device(a.device());
  const auto left = operand_of(a, transpose_a), right = operand_of(b, transpose_b);
  multiply(Matmul{.in = type_of(a),
                  .out = type_of(out),
                  .a = left.matrix.const_data_ptr(),
                  .b = right.matrix.const_data_ptr(),
                  .c = adds ? out.const_data_ptr() : nullptr,
                  .d = out.mutable_data_ptr(),
                  .m = out.size(0),
                  .n = out.size(1),
                  .k = a.size(transpose_a ? 0 : 1),
                  .lda = row_stride(left.matrix),
                  .ldb = row_stride(right.matrix),
                  .ldc = adds ? out.stride(0) : 0,
                  .ldd = out.stride(0),
                  .transpose_a = left.transposed,
                  .transpose_b = right.transposed,
                  .beta = adds ? 1.0f : 0.0f},
           out);
}

at::Tensor linear(const at::Tensor& x,
                  const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias) {
  if (!projects(x, weight, bias)) {
    return ops::reference::linear(x, weight, bias);
  }
  return project(x, weight, bias, std::nullopt);
}

at::Tensor linear_add(const at::Tensor& x,
                      const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias,
                      const at::Tensor& stream) {
  if (!projects(x, weight, bias) || stream.scalar_type() != x.scalar_type()) {
    return ops::reference::linear_add(x, weight, bias, stream);
  }
  return project(x, weight, bias, stream);
}

}  // namespace

TORCH_LIBRARY_IMPL(reprise, CUDA, library) {
  library.impl("product_", product_);
  library.impl("linear", linear);
  library.impl("linear_add", linear_add);
}

}  // namespace reprise::cuda
