#include "ops/linear/linear_add.h"

#include "ops/linear/linear_gradients.h"
#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

namespace reprise::ops {

namespace reference {

at::Tensor linear_add(const at::Tensor& x,
                      const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias,
                      const at::Tensor& residual) {
  return reference::linear(x, weight, bias).add_(residual);
}

}  // namespace reference

namespace {

struct LinearAddBackward : torch::autograd::Node {
  SavedVariable x;
  SavedWeight weight;

  variable_list apply(variable_list&& gradients) override {
    const auto& gradient = gradients[0];
    if (!gradient.defined()) {
      return variable_list(4);
    }
    const LinearNeeds needs{.x = task_should_compute_output(0),
                            .weight = task_should_compute_output(1),
                            .bias = task_should_compute_output(2)};
    auto [for_x, for_weight, for_bias] =
        linear_gradients(gradient,
                         needs.weight ? x.unpack() : at::Tensor(),
                         weight.unpack_if(needs.any(), gradient.scalar_type()),
                         needs);
    return {for_x, for_weight, for_bias, gradient};
  }
  void release_variables() override {
    x.reset_data();
    weight.release();
  }
  std::string name() const override { return "LinearAddBackward"; }
};

}  // namespace

at::Tensor linear_add(const at::Tensor& x,
                      const Weight& weight,
                      const at::Tensor& bias,
                      const at::Tensor& residual) {
  check_linear("linear_add", x, weight, bias, residual);
  static const auto op = find_operator<decltype(reference::linear_add)>("reprise::linear_add");
  const auto node = node_over<LinearAddBackward>(x, weight.tensor(), bias, residual);
  if (node != nullptr) {
    if (weight.is_trained()) {  // only the weight's gradient needs x
      node->x = saved_input(x);
    }
    node->weight.save(weight);
  }
  const auto matrix = weight.for_product(x.scalar_type());
  at::Tensor sum;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    sum = op.call(x, matrix, as_optional(bias), residual);
  }
  if (node != nullptr) {
    torch::autograd::set_history(sum, node);
  }
  return sum;
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def("linear_add(Tensor x, Tensor weight, Tensor? bias, Tensor residual) -> Tensor");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("linear_add", reference::linear_add);
}

}  // namespace reprise::ops
