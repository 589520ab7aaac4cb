#include "ops/linear/adapted_linear.h"

#include "ops/linear/adapter_products.h"
#include "ops/linear/linear_gradients.h"
#include "ops/linear/saved_adapters.h"
#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <string>

namespace reprise::ops {

namespace reference {

// Calls operators, so that their kernels serve where there are some.
at::Tensor adapted_linear(const at::Tensor& x,
                          const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias,
                          const std::optional<at::Tensor>& residual,
                          at::TensorList a,
                          at::TensorList b,
                          at::IntArrayRef starts,
                          at::ArrayRef<double> scales,
                          double dropout,
                          const std::optional<at::Tensor>& seed) {
  static const auto apply = find_operator<decltype(linear)>("reprise::linear");
  static const auto add = find_operator<decltype(linear_add)>("reprise::linear_add");
  auto sum = residual ? add.call(x, weight, bias, *residual) : apply.call(x, weight, bias);
  ops::add_adapters(sum, x, adapters_of(a, b, starts, scales, dropout, seed));
  return sum;
}

}  // namespace reference

namespace {

struct AdaptedLinearBackward : torch::autograd::Node {
  SavedVariable x;
  SavedWeight weight;
  SavedAdapters adapters;

  // Gradients of x, weight, bias and residual, then of every a, then of every b.
  variable_list apply(variable_list&& gradients) override {
    const auto& gradient = gradients[0];
    if (!gradient.defined()) {
      return variable_list(num_outputs());
    }
    const LinearNeeds needs{.x = task_should_compute_output(0),
                            .weight = task_should_compute_output(1),
                            .bias = task_should_compute_output(2)};
    const auto factors = adapter_needs(*this, 4, adapters.count());
    const bool reads_x = needs.weight || factors.a || factors.b;
    const auto input = reads_x ? x.unpack() : at::Tensor();
    auto [for_x, for_weight, for_bias] = linear_gradients(
        gradient, input, weight.unpack_if(needs.any(), gradient.scalar_type()), needs);
    const AdapterBackward backward(adapters.unpack(), gradient);
    if (for_x.defined()) {
      backward.add_to(for_x);
    }
    variable_list results{for_x, for_weight, for_bias, gradient};
    append(results, backward.factors(input, factors));
    return results;
  }
  void release_variables() override {
    x.reset_data();
    weight.release();
    adapters.release();
  }
  std::string name() const override { return "AdaptedLinearBackward"; }
};

}  // namespace

at::Tensor adapted_linear(const at::Tensor& x,
                          const Weight& weight,
                          const at::Tensor& bias,
                          const at::Tensor& residual,
                          const Adapters& adapters) {
  check_linear("adapted_linear", x, weight, bias, residual);
  check_adapters("adapted_linear", x, x.size(-1), weight.out(), adapters);
  static const auto op =
      find_operator<decltype(reference::adapted_linear)>("reprise::adapted_linear");
  const auto node = node_over<AdaptedLinearBackward>(
      x, weight.tensor(), bias, residual, at::TensorList(adapters.a), at::TensorList(adapters.b));
  if (node != nullptr) {
    if (weight.is_trained() || are_trained(adapters)) {
      node->x = saved_input(x);
    }
    node->weight.save(weight);
    node->adapters.save(adapters);
  }
  auto sum = call_with(op,
                       adapters,
                       x,
                       weight.for_product(x.scalar_type()),
                       as_optional(bias),
                       as_optional(residual));
  if (node != nullptr) {
    torch::autograd::set_history(sum, node);
  }
  return sum;
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      (std::string("adapted_linear(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, ") +
       kAdapterArguments + ") -> Tensor")
          .c_str());
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("adapted_linear", reference::adapted_linear);
}

}  // namespace reprise::ops
