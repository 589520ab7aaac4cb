#include "ops/linear/gated_linear.h"

#include "ops/linear/adapter_products.h"
#include "ops/linear/linear_gradients.h"
#include "ops/linear/saved_adapters.h"
#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <optional>
#include <string>

namespace reprise::ops {

namespace reference {

// Calls operators, so that their kernels serve where there are some.
at::Tensor gated_linear(const at::Tensor& gate_up,
                        int64_t activation,
                        const at::Tensor& weight,
                        const std::optional<at::Tensor>& bias,
                        const std::optional<at::Tensor>& residual,
                        at::TensorList a,
                        at::TensorList b,
                        at::IntArrayRef starts,
                        at::ArrayRef<double> scales,
                        double dropout,
                        const std::optional<at::Tensor>& seed) {
  static const auto gate = find_operator<decltype(gated)>("reprise::gated");
  static const auto apply = find_operator<decltype(linear)>("reprise::linear");
  static const auto add = find_operator<decltype(linear_add)>("reprise::linear_add");
  const auto inner = gate.call(gate_up, activation);
  auto sum = residual ? add.call(inner, weight, bias, *residual) : apply.call(inner, weight, bias);
  if (!a.empty()) {
    ops::add_adapters(sum, inner, adapters_of(a, b, starts, scales, dropout, seed));
  }
  return sum;
}

}  // namespace reference

namespace {

struct GatedLinearBackward : torch::autograd::Node {
  SavedVariable gate_up;
  SavedWeight weight;
  SavedAdapters adapters;
  int64_t activation = 0;

  // Gradients of gate_up, weight, bias and residual, then of every a, then of every b.
  variable_list apply(variable_list&& gradients) override {
    const auto& gradient = gradients[0];
    if (!gradient.defined()) {
      return variable_list(num_outputs());
    }
    check_differentiated_once("gated_linear");
    static const auto op =
        find_operator<decltype(reference::gated_backward_)>("reprise::gated_backward_");
    const bool is_retained = torch::autograd::get_current_graph_task_keep_graph();
    auto both = is_retained ? gate_up.unpack().clone() : gate_up.unpack().detach();
    // Once: another unpack could recompute the region again.
    auto w = weight.unpack(gradient.scalar_type());
    // Becomes gated(gate_up), which the gradients of weight and adapters need.
    auto inner = linear_gradients(gradient, both, w, {.x = true}).x;
    const LinearNeeds needs{.weight = task_should_compute_output(1),
                            .bias = task_should_compute_output(2)};
    if (!needs.any()) {
      w.reset();  // a matrix that was made for this product
    }
    std::optional<AdapterBackward> of_adapters;
    if (adapters.count() > 0) {
      of_adapters.emplace(adapters.unpack(), gradient);
      of_adapters->add_to(inner);
    }
    op.call(inner, both, activation);
    torch::autograd::impl::bump_version(both);  // for those who saved it, whichever kernel wrote it
    const auto of_linear = linear_gradients(gradient, inner, w, needs);
    variable_list results{both, of_linear.weight, of_linear.bias, gradient};
    if (of_adapters) {
      append(results, of_adapters->factors(inner, adapter_needs(*this, 4, adapters.count())));
    }
    return results;
  }
  void release_variables() override {
    gate_up.reset_data();
    weight.release();
    adapters.release();
  }
  std::string name() const override { return "GatedLinearBackward"; }
};

}  // namespace

at::Tensor gated_linear(const at::Tensor& gate_up,
                        Activation activation,
                        const Weight& weight,
                        const at::Tensor& bias,
                        const at::Tensor& residual,
                        const Adapters& adapters) {
  check_linear_types("gated_linear", gate_up, weight, bias);
  if (!adapters.empty()) {
    check_adapters("gated_linear", gate_up, gate_up.size(-1) / 2, weight.out(), adapters);
  }
  static const auto op = find_operator<decltype(reference::gated_linear)>("reprise::gated_linear");
  const auto number = static_cast<int64_t>(activation);
  const auto node = node_over<GatedLinearBackward>(gate_up,
                                                   weight.tensor(),
                                                   bias,
                                                   residual,
                                                   at::TensorList(adapters.a),
                                                   at::TensorList(adapters.b));
  if (node != nullptr) {
    node->gate_up = saved_input(gate_up);
    node->weight.save(weight);
    node->adapters.save(adapters);
    node->activation = number;
  }
  auto sum = call_with(op,
                       adapters,
                       gate_up,
                       number,
                       weight.for_product(gate_up.scalar_type()),
                       as_optional(bias),
                       as_optional(residual));
  if (node != nullptr) {
    torch::autograd::set_history(sum, node);
  }
  return sum;
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      (std::string("gated_linear(Tensor gate_up, int activation, Tensor weight, Tensor? bias, "
                   "Tensor? residual, ") +
       kAdapterArguments + ") -> Tensor")
          .c_str());
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("gated_linear", reference::gated_linear);
}

}  // namespace reprise::ops
