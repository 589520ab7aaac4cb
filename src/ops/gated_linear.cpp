#include "ops/gated_linear.h"

#include "ops/node.h"
#include "ops/operator.h"
#include "ops/projection.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

namespace reprise::ops {

namespace reference {

// Of operators, so that kernels of either serve.
at::Tensor gated_linear(const at::Tensor& gate_up,
                        int64_t activation,
                        const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias,
                        const std::optional<at::Tensor>& stream) {
  static const auto gate = find_operator<decltype(gated)>("reprise::gated");
  static const auto project = find_operator<decltype(linear)>("reprise::linear");
  static const auto add = find_operator<decltype(linear_add)>("reprise::linear_add");
  const auto inner = gate.call(gate_up, activation);
  return stream ? add.call(inner, weight, bias, *stream) : project.call(inner, weight, bias);
}

}  // namespace reference

namespace {

struct GatedLinearBackward : torch::autograd::Node {
  SavedVariable gate_up, weight;
  int64_t activation = 0;

  variable_list apply(variable_list&& gradients) override {
    const auto& gradient = gradients[0];
    if (!gradient.defined()) {
      return variable_list(4);
    }
    check_differentiated_once("gated_linear");
    static const auto op =
        find_operator<decltype(reference::gated_backward_)>("reprise::gated_backward_");
    const bool is_retained = torch::autograd::get_current_graph_task_keep_graph();
    auto both = is_retained ? gate_up.unpack().clone() : gate_up.unpack().detach();
    const auto w = weight.unpack();  // once: for a second time a region would be computed again
    // Overwritten with what was projected.
    auto inner = projection_gradients(gradient, both, w, {.x = true}).x;
    op.call(inner, both, activation);
    torch::autograd::impl::bump_version(both);  // who kept it must notice, whatever kernel wrote
    const auto of_projection = projection_gradients(
        gradient,
        inner,
        w,
        {.weight = task_should_compute_output(1), .bias = task_should_compute_output(2)});
    return {both, of_projection.weight, of_projection.bias, gradient};
  }
  void release_variables() override {
    gate_up.reset_data();
    weight.reset_data();
  }
  std::string name() const override { return "GatedLinearBackward"; }
};

}  // namespace

at::Tensor gated_linear(const at::Tensor& gate_up,
                        Activation activation,
                        const at::Tensor& weight,
                        const at::Tensor& bias,
                        const at::Tensor& stream) {
  check_types("gated_linear", gate_up, weight, bias);
  static const auto op = find_operator<decltype(reference::gated_linear)>("reprise::gated_linear");
  const auto number = static_cast<int64_t>(activation);
  const auto node = node_over<GatedLinearBackward>(gate_up, weight, bias, stream);
  if (node != nullptr) {
    node->gate_up = saved_input(gate_up);
    node->weight = saved_input(weight);
    node->activation = number;
  }
  at::Tensor sum;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    sum = op.call(gate_up, number, weight, as_optional(bias), as_optional(stream));
  }
  if (node != nullptr) {
    torch::autograd::set_history(sum, node);
  }
  return sum;
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      "gated_linear(Tensor gate_up, int activation, Tensor weight, Tensor? bias, Tensor? stream) "
      "-> Tensor");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("gated_linear", reference::gated_linear);
}

}  // namespace reprise::ops
