// reprise::add_rounded and reprise::scale_into_ on a GPU.
#include "ops/cuda/tensors.h"
#include "ops/kernel_allocations.h"
#include "ops/reference.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace reprise::cuda {

namespace {

void scale_into_(at::Tensor& out, const at::Tensor& values, const at::Tensor& factor) {
  const bool is_served = ops::serves_scale_into(out, values, factor) && factor.is_cuda();
  const Scale job{.in_type = type_of(values),
                  .out_type = type_of(out),
                  .in = is_served ? values.const_data_ptr() : nullptr,
                  .out = is_served ? out.mutable_data_ptr() : nullptr,
                  .factor = is_served ? factor.const_data_ptr<float>() : nullptr,
                  .count = values.numel()};
  if (!is_served || !can_launch(job)) {
    ops::reference::scale_into_(out, values, factor);
    return;
  }
  const c10::DeviceGuard device(out.device());
  launch(job, stream_of(out));
}

void add_rounded_into_(at::Tensor& out, const at::Tensor& x, const at::Tensor& added) {
  const bool is_served = ops::serves_add_rounded_into(out, x, added);
  const AddRounded job{.type = type_of(x),
                       .added_type = type_of(added),
                       .x = is_served ? x.const_data_ptr() : nullptr,
                       .added = is_served ? added.const_data_ptr() : nullptr,
                       .out = is_served ? out.mutable_data_ptr() : nullptr,
                       .count = x.numel()};
  if (!is_served || !can_launch(job)) {
    ops::reference::add_rounded_into_(out, x, added);
    return;
  }
  const c10::DeviceGuard device(x.device());
  launch(job, stream_of(x));
}

at::Tensor add_rounded(const at::Tensor& x, const at::Tensor& added) {
  const auto values = x.contiguous(), others = added.contiguous();
  auto sum = at::empty_like(values);
  add_rounded_into_(sum, values, others);
  return sum;
}

}  // namespace

TORCH_LIBRARY_IMPL(reprise, CUDA, library) {
  library.impl("add_rounded", add_rounded);
  library.impl("add_rounded_into_", add_rounded_into_);
  library.impl("scale_into_", scale_into_);
}

}  // namespace reprise::cuda
