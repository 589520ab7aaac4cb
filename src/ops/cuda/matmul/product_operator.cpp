// reprise::product_, reprise::linear and reprise::linear_add on a GPU, by cublasLt.
#include "ops/cuda/matmul/linear.h"
#include "ops/cuda/tensors.h"
#include "ops/kernel_allocations.h"
#include "ops/reference.h"

#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <algorithm>

namespace reprise::cuda {

namespace {

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
  if (!ops::serves_matmul(out, a, b)) {
    ops::reference::product_(out, a, b, transpose_a, transpose_b, adds);
    return;
  }
  const c10::DeviceGuard device(a.device());
  const auto left = ops::matmul_operand(a, transpose_a),
             right = ops::matmul_operand(b, transpose_b);
  run_matmul(Matmul{.in = type_of(a),
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
                    .transpose_a = left.is_transposed,
                    .transpose_b = right.is_transposed,
                    .beta = adds ? 1.0f : 0.0f},
             out);
}

at::Tensor linear(const at::Tensor& x,
                  const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias) {
  if (!ops::serves_linear(x, weight, bias)) {
    return ops::reference::linear(x, weight, bias);
  }
  return run_linear(x, weight, bias, std::nullopt);
}

at::Tensor linear_add(const at::Tensor& x,
                      const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias,
                      const at::Tensor& residual) {
  if (!ops::serves_linear(x, weight, bias) || !ops::have_one_type(residual, x)) {
    return ops::reference::linear_add(x, weight, bias, residual);
  }
  return run_linear(x, weight, bias, residual);
}

}  // namespace

TORCH_LIBRARY_IMPL(reprise, CUDA, library) {
  library.impl("product_", product_);
  library.impl("linear", linear);
  library.impl("linear_add", linear_add);
}

}  // namespace reprise::cuda
