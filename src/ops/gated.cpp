#include "ops/gated.h"

#include "ops/activation.h"
#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

namespace reprise::ops {

namespace reference {

at::Tensor gated(const at::Tensor& gate_up, int64_t activation) {
  const auto halves = gate_up.chunk(2, -1);
  const auto type = wide_type(gate_up);
  return activate(static_cast<Activation>(activation), halves[0].to(type))
      .mul_(halves[1])
      .to(gate_up.scalar_type());
}

at::Tensor gated_backward(const at::Tensor& gradient,
                          const at::Tensor& gate_up,
                          int64_t activation) {
  auto result = gate_up.clone(at::MemoryFormat::Contiguous);
  auto overwritten = gradient.clone();
  gated_backward_(overwritten, result, activation);
  return result;
}

void gated_backward_(at::Tensor& gradient, at::Tensor& gate_up, int64_t activation) {
  const auto kind = static_cast<Activation>(activation);
  const auto type = wide_type(gate_up);
  const auto halves = gate_up.chunk(2, -1);
  const auto gate = halves[0].to(type), up = halves[1].to(type), wide = gradient.to(type);
  const auto activated = activate(kind, gate);
  const auto of_gate = activate_backward(kind, wide * up, gate);
  const auto of_up = activated * wide;
  gradient.copy_(activated * up);
  halves[0].copy_(of_gate);
  halves[1].copy_(of_up);
}

}  // namespace reference

namespace {

struct GatedBackward : torch::autograd::Node {
  SavedVariable gate_up;
  int64_t activation = 0;

  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined()) {
      return variable_list(1);
    }
    check_differentiated_once("gated");
    static const auto op =
        find_operator<decltype(reference::gated_backward)>("reprise::gated_backward");
    return {op.call(gradients[0], gate_up.unpack(), activation)};
  }
  void release_variables() override { gate_up.reset_data(); }
  std::string name() const override { return "GatedBackward"; }
};

}  // namespace

at::Tensor gated(const at::Tensor& gate_up, Activation activation) {
  TORCH_CHECK(gate_up.dim() > 0 && gate_up.size(-1) % 2 == 0,
              "[gated] expected gate_up (..., 2 width), got ",
              gate_up.sizes());
  static const auto op = find_operator<decltype(reference::gated)>("reprise::gated");
  const auto number = static_cast<int64_t>(activation);
  const auto node = node_over<GatedBackward>(gate_up);
  if (node != nullptr) {
    node->gate_up = saved_input(gate_up);
    node->activation = number;
  }
  at::Tensor result;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    result = op.call(gate_up, number);
  }
  if (node != nullptr) {
    torch::autograd::set_history(result, node);
  }
  return result;
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def("gated(Tensor gate_up, int activation) -> Tensor");
  library.def("gated_backward(Tensor gradient, Tensor gate_up, int activation) -> Tensor");
  library.def("gated_backward_(Tensor(a!) gradient, Tensor(b!) gate_up, int activation) -> ()");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("gated", reference::gated);
  library.impl("gated_backward", reference::gated_backward);
  library.impl("gated_backward_", reference::gated_backward_);
}

}  // namespace reprise::ops
