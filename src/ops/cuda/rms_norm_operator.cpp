// reprise::rms_norm and its gradient on a GPU.
#include "ops/cuda/tensors.h"
#include "ops/kernel_allocations.h"
#include "ops/reference.h"

#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace reprise::cuda {

namespace {

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x,
                                            const at::Tensor& weight,
                                            double epsilon,
                                            double offset) {
  if (!ops::are_kernel_types(x, weight)) {
    return ops::reference::rms_norm(x, weight, epsilon, offset);
  }
  const c10::DeviceGuard device(x.device());
  const auto [rows, normed, scale] = ops::rms_norm_tensors(x);
  launch(RmsNorm{.type = type_of(x),
                 .weight_type = type_of(weight),
                 .x = rows.const_data_ptr(),
                 .weight = weight.contiguous().const_data_ptr(),
                 .y = normed.mutable_data_ptr(),
                 .scale = scale.mutable_data_ptr<float>(),
                 .rows = rows_of(x),
                 .width = x.size(-1),
                 .epsilon = static_cast<float>(epsilon),
                 .weight_offset = static_cast<float>(offset)},
         stream_of(x));
  return {normed, scale};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(
    const at::Tensor& gradient,
    const std::optional<at::Tensor>& residual_gradient,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& scale,
    bool needs_weight,
    double offset) {
  if (!ops::serves_rms_norm_backward(gradient, residual_gradient, x, weight)) {
    return ops::reference::rms_norm_backward(
        gradient, residual_gradient, x, weight, scale, needs_weight, offset);
  }
  const c10::DeviceGuard device(x.device());
  const int64_t rows = rows_of(x), width = x.size(-1);
  const auto t = ops::rms_norm_backward_tensors(gradient,
                                                residual_gradient,
                                                x,
                                                weight,
                                                needs_weight,
                                                needs_weight ? rms_norm_partials(rows, width) : 0);
  const auto& residual = t.residual_gradient;
  launch(RmsNormBackward{.type = type_of(x),
                         .weight_type = type_of(weight),
                         .grad = t.gradient.const_data_ptr(),
                         .grad_residual = residual.defined() ? residual.const_data_ptr() : nullptr,
                         .x = t.x.const_data_ptr(),
                         .weight = t.weight.const_data_ptr(),
                         .scale = scale.const_data_ptr<float>(),
                         .dx = t.for_x.mutable_data_ptr(),
                         .partials = needs_weight ? t.partials.mutable_data_ptr<float>() : nullptr,
                         .dweight = needs_weight ? t.for_weight.mutable_data_ptr() : nullptr,
                         .rows = rows,
                         .width = width,
                         .weight_offset = static_cast<float>(offset)},
         stream_of(x));
  return {t.for_x, t.for_weight};
}

}  // namespace

TORCH_LIBRARY_IMPL(reprise, CUDA, library) {
  library.impl("rms_norm", rms_norm);
  library.impl("rms_norm_backward", rms_norm_backward);
}

}  // namespace reprise::cuda
