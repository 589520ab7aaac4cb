#include "ops/cuda/tensors.h"
#include "ops/reference.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace reprise::cuda {

namespace {

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x,
                                            const at::Tensor& weight,
                                            double epsilon) {
  if (!has_kernel(x) || !has_kernel(weight)) {
    return ops::reference::rms_norm(x, weight, epsilon);
  }
  const c10::DeviceGuard device(x.device());
  const auto rows = x.contiguous();
  auto normed = at::empty_like(rows);
  auto sizes = x.sizes().vec();
  sizes.back() = 1;
  auto scale = at::empty(sizes, x.options().dtype(at::kFloat));
  launch(RmsNorm{.type = type_of(x),
                 .weight_type = type_of(weight),
                 .x = rows.const_data_ptr(),
                 .weight = weight.contiguous().const_data_ptr(),
                 .y = normed.mutable_data_ptr(),
                 .scale = scale.mutable_data_ptr<float>(),
                 .rows = rows_of(x),
                 .width = x.size(-1),
                 .epsilon = static_cast<float>(epsilon)},
         stream_of(x));
  return {normed, scale};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(
    const at::Tensor& gradient,
    const std::optional<at::Tensor>& stream_gradient,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& scale,
    bool needs_weight) {
  const bool is_one_type = gradient.scalar_type() == x.scalar_type() &&
                           (!stream_gradient || stream_gradient->scalar_type() == x.scalar_type());
  if (!has_kernel(x) || !has_kernel(weight) || !is_one_type || x.numel() == 0) {
    return ops::reference::rms_norm_backward(
        gradient, stream_gradient, x, weight, scale, needs_weight);
  }
  const c10::DeviceGuard device(x.device());
  const auto of_normed = gradient.contiguous(), input = x.contiguous(), w = weight.contiguous();
  const auto of_stream = stream_gradient ? stream_gradient->contiguous() : at::Tensor();
  const int64_t rows = rows_of(x), width = x.size(-1);
  auto for_x = at::empty_like(input);
  at::Tensor for_weight, partials;
  if (needs_weight) {
    for_weight = at::empty_like(w);
    partials = at::empty({rms_norm_partials(rows, width), width}, x.options().dtype(at::kFloat));
  }
  launch(RmsNormBackward{.type = type_of(x),
                         .weight_type = type_of(weight),
                         .grad = of_normed.const_data_ptr(),
                         .grad_stream = of_stream.defined() ? of_stream.const_data_ptr() : nullptr,
                         .x = input.const_data_ptr(),
                         .weight = w.const_data_ptr(),
                         .scale = scale.const_data_ptr<float>(),
                         .dx = for_x.mutable_data_ptr(),
                         .partials = needs_weight ? partials.mutable_data_ptr<float>() : nullptr,
                         .dweight = needs_weight ? for_weight.mutable_data_ptr() : nullptr,
                         .rows = rows,
                         .width = width},
         stream_of(x));
  return {for_x, for_weight};
}

}  // namespace

TORCH_LIBRARY_IMPL(reprise, CUDA, library) {
  library.impl("rms_norm", rms_norm);
  library.impl("rms_norm_backward", rms_norm_backward);
}

}  // namespace reprise::cuda
