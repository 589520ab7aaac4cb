#include "ops/cuda/tensors.h"
#include "ops/reference.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace reprise::cuda {

namespace {

at::Tensor gated(const at::Tensor& gate_up, int64_t activation) {
  if (!has_kernel(gate_up)) {
    return ops::reference::gated(gate_up, activation);
  }
  const c10::DeviceGuard device(gate_up.device());
  const auto both = gate_up.contiguous();
  auto sizes = gate_up.sizes().vec();
  sizes.back() /= 2;
  auto y = at::empty(sizes, gate_up.options());
  launch(Gated{.type = type_of(both),
               .activation = static_cast<Activation>(activation),
               .gate_up = both.const_data_ptr(),
               .y = y.mutable_data_ptr(),
               .rows = rows_of(both),
               .width = sizes.back()},
         stream_of(both));
  return y;
}

at::Tensor gated_backward(const at::Tensor& gradient,
                          const at::Tensor& gate_up,
                          int64_t activation) {
  if (!has_kernel(gate_up) || gradient.scalar_type() != gate_up.scalar_type()) {
    return ops::reference::gated_backward(gradient, gate_up, activation);
  }
  const c10::DeviceGuard device(gate_up.device());
  const auto both = gate_up.contiguous(), of_y = gradient.contiguous();
  auto of_both = at::empty_like(both);
  launch(GatedBackward{.type = type_of(both),
                       .activation = static_cast<Activation>(activation),
                       .grad = of_y.const_data_ptr(),
                       .gate_up = both.const_data_ptr(),
                       .dgate_up = of_both.mutable_data_ptr(),
                       .y = nullptr,
                       .rows = rows_of(both),
                       .width = both.size(-1) / 2},
         stream_of(both));
  return of_both;
}

void gated_backward_(at::Tensor& gradient, at::Tensor& gate_up, int64_t activation) {
  if (!has_kernel(gate_up) || gradient.scalar_type() != gate_up.scalar_type() ||
      !gradient.is_contiguous() || !gate_up.is_contiguous()) {
    ops::reference::gated_backward_(gradient, gate_up, activation);
    return;
  }
  const c10::DeviceGuard device(gate_up.device());
  // A thread reads what it overwrites before it writes.
  launch(GatedBackward{.type = type_of(gate_up),
                       .activation = static_cast<Activation>(activation),
                       .grad = gradient.const_data_ptr(),
                       .gate_up = gate_up.const_data_ptr(),
                       .dgate_up = gate_up.mutable_data_ptr(),
                       .y = gradient.mutable_data_ptr(),
                       .rows = rows_of(gate_up),
                       .width = gate_up.size(-1) / 2},
         stream_of(gate_up));
}

}  // namespace

TORCH_LIBRARY_IMPL(reprise, CUDA, library) {
  library.impl("gated", gated);
  library.impl("gated_backward", gated_backward);
  library.impl("gated_backward_", gated_backward_);
}

}  // namespace reprise::cuda
