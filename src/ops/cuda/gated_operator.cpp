// reprise::gated and its gradients on a GPU.
#include "ops/cuda/tensors.h"
#include "ops/kernel_allocations.h"
#include "ops/reference.h"

#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

namespace reprise::cuda {

namespace {

at::Tensor gated(const at::Tensor& gate_up, int64_t activation) {
  if (!ops::are_kernel_types(gate_up)) {
    return ops::reference::gated(gate_up, activation);
  }
  const c10::DeviceGuard device(gate_up.device());
  const auto [both, y] = ops::gated_tensors(gate_up);
  launch(Gated{.type = type_of(both),
               .activation = static_cast<Activation>(activation),
               .gate_up = both.const_data_ptr(),
               .y = y.mutable_data_ptr(),
               .rows = rows_of(both),
               .width = y.size(-1)},
         stream_of(both));
  return y;
}

at::Tensor gated_backward(const at::Tensor& gradient,
                          const at::Tensor& gate_up,
                          int64_t activation) {
  if (!ops::serves_gated_backward(gradient, gate_up)) {
    return ops::reference::gated_backward(gradient, gate_up, activation);
  }
  const c10::DeviceGuard device(gate_up.device());
  const auto [both, of_y, of_both] = ops::gated_backward_tensors(gradient, gate_up);
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
  if (!ops::serves_gated_backward_in_place(gradient, gate_up)) {
    ops::reference::gated_backward_(gradient, gate_up, activation);
    return;
  }
  const c10::DeviceGuard device(gate_up.device());
  // Safe in place: each thread reads all of its values before it writes them.
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
