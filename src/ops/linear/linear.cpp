#include "ops/linear/linear.h"

#include "ops/cpu/onednn_matmul.h"
#include "ops/cpu/small_batch_linear.h"
#include "ops/linear/aten_linear.h"
#include "ops/linear/linear_gradients.h"
#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

namespace reprise::ops {

namespace {

// By oneDNN where it serves, with the allocations of at::linear(); undefined elsewhere.
at::Tensor onednn_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (!x.is_cpu() || !x.is_contiguous() || x.numel() == 0 || serves_small_batch(x, weight, bias) ||
      at::autocast::is_autocast_enabled(at::kCPU)) {
    return {};
  }
  const auto rows = x.view({-1, x.size(-1)}), columns = weight.t();
  if (!serves_onednn_matmul(rows, columns)) {
    return {};
  }
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  auto y = at::empty(sizes, x.options().requires_grad(false));
  if (bias.defined()) {
    y.copy_(bias);
  }
  onednn_matmul(y.view({rows.size(0), weight.size(0)}), rows, columns, /*adds=*/bias.defined());
  return y;
}

}  // namespace

namespace reference {

at::Tensor linear(const at::Tensor& x,
                  const at::Tensor& weight,
                  const std::optional<at::Tensor>& bias) {
  const auto type = x.scalar_type();
  const auto w = weight.to(type), b = bias ? bias->to(type) : at::Tensor();
  auto y = onednn_linear(x, w, b);
  return y.defined() ? y : plain_linear(x, w, b);
}

}  // namespace reference

namespace {

struct LinearBackward : torch::autograd::Node {
  SavedVariable x;
  SavedWeight weight;

  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined()) {
      return variable_list(3);
    }
    const LinearNeeds needs{.x = task_should_compute_output(0),
                            .weight = task_should_compute_output(1),
                            .bias = task_should_compute_output(2)};
    auto [for_x, for_weight, for_bias] =
        linear_gradients(gradients[0],
                         needs.weight ? x.unpack() : at::Tensor(),
                         weight.unpack_if(needs.any(), gradients[0].scalar_type()),
                         needs);
    return {for_x, for_weight, for_bias};
  }
  void release_variables() override {
    x.reset_data();
    weight.release();
  }
  std::string name() const override { return "reprise::LinearBackward"; }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const Weight& weight, const at::Tensor& bias) {
  check_linear("linear", x, weight, bias, {});
  static const auto op = find_operator<decltype(reference::linear)>("reprise::linear");
  const auto node = node_over<LinearBackward>(x, weight.tensor(), bias);
  if (node != nullptr) {
    if (weight.is_trained()) {  // only the weight's gradient needs x
      node->x = saved_input(x);
    }
    node->weight.save(weight);
  }
  const auto matrix = weight.for_product(x.scalar_type());
  at::Tensor y;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    y = op.call(x, matrix, as_optional(bias));
  }
  if (node != nullptr) {
    torch::autograd::set_history(y, node);
  }
  return y;
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def("linear(Tensor x, Tensor weight, Tensor? bias) -> Tensor");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("linear", reference::linear);
}

}  // namespace reprise::ops
