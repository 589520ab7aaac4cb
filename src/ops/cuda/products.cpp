#include "ops/cuda/products.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

namespace reprise::cuda {

namespace {

constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

}  // namespace

void multiply(Matmul job, const at::Tensor& out) {
  const auto bytes = out.options().dtype(at::kByte).requires_grad(false);
  const auto workspace = at::empty({kWorkspaceBytes}, bytes);
  job.workspace = workspace.mutable_data_ptr();
  job.workspace_bytes = static_cast<size_t>(kWorkspaceBytes);
  job.allow_tf32 = at::globalContext().allowTF32CuBLAS();
  launch(job, stream_of(out));
}

bool projects(const at::Tensor& x,
              const at::Tensor& weight,
              const std::optional<at::Tensor>& bias) {
  return has_kernel(x) && has_kernel(weight) && (!bias || has_kernel(*bias)) && x.numel() > 0;
}

at::Tensor project(const at::Tensor& x,
                   const at::Tensor& weight,
                   const std::optional<at::Tensor>& bias,
                   const std::optional<at::Tensor>& stream) {
  const c10::DeviceGuard device(x.device());
  const auto type = x.scalar_type();
  const auto rows = x.contiguous(), w = weight.to(type).contiguous();
  const auto b = bias ? bias->to(type).contiguous() : at::Tensor();
  const auto added = stream ? stream->contiguous() : at::Tensor();
  const int64_t in = x.size(-1), out = weight.size(0);
  auto sizes = x.sizes().vec();
  sizes.back() = out;
  auto result = at::empty(sizes, x.options().requires_grad(false));
  multiply(Matmul{.in = type_of(x),
                  .out = type_of(x),
                  .a = rows.const_data_ptr(),
                  .b = w.const_data_ptr(),
                  .c = added.defined() ? added.const_data_ptr() : nullptr,
                  .d = result.mutable_data_ptr(),
                  .bias = b.defined() ? b.const_data_ptr() : nullptr,
                  .m = rows_of(x),
                  .n = out,
                  .k = in,
                  .lda = in,
                  .ldb = in,
                  .ldc = added.defined() ? out : 0,
                  .ldd = out,
                  .transpose_b = true,
                  .beta = added.defined() ? 1.0f : 0.0f},
           result);
  return result;
}

}  // namespace reprise::cuda
