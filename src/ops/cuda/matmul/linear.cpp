#include "ops/cuda/matmul/linear.h"

#include "ops/cuda/tensors.h"
#include "ops/kernel_allocations.h"

#include <ATen/Context.h>
#include <c10/core/DeviceGuard.h>

namespace reprise::cuda {

void run_matmul(Matmul job, const at::Tensor& out) {
  const auto workspace = ops::matmul_workspace(out);
  job.workspace = workspace.mutable_data_ptr();
  job.workspace_bytes = static_cast<size_t>(ops::kMatmulWorkspaceBytes);
  job.allow_tf32 = at::globalContext().allowTF32CuBLAS();
  launch(job, stream_of(out));
}

at::Tensor run_linear(const at::Tensor& x,
                      const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias,
                      const std::optional<at::Tensor>& residual) {
  const c10::DeviceGuard device(x.device());
  const auto t = ops::linear_tensors(x, weight, bias, residual);
  const int64_t in = x.size(-1), out = weight.size(0);
  const bool adds = t.residual.defined();
  run_matmul(Matmul{.in = type_of(x),
                    .out = type_of(x),
                    .a = t.x.const_data_ptr(),
                    .b = t.weight.const_data_ptr(),
                    .c = adds ? t.residual.const_data_ptr() : nullptr,
                    .d = t.out.mutable_data_ptr(),
                    .bias = t.bias.defined() ? t.bias.const_data_ptr() : nullptr,
                    .m = rows_of(x),
                    .n = out,
                    .k = in,
                    .lda = in,
                    .ldb = in,
                    .ldc = adds ? out : 0,
                    .ldd = out,
                    .transpose_b = true,
                    .beta = adds ? 1.0f : 0.0f},
             t.out);
  return t.out;
}

}  // namespace reprise::cuda
