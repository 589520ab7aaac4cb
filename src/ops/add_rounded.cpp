#include "ops/add_rounded.h"

#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

namespace reprise::ops {

namespace reference {

at::Tensor add_rounded(const at::Tensor& x, const at::Tensor& added) {
  return (x + added).to(x.scalar_type());
}

}  // namespace reference

namespace {

struct AddRoundedBackward : torch::autograd::Node {
  at::ScalarType added_type = at::kFloat;

  variable_list apply(variable_list&& gradients) override {
    const auto& gradient = gradients[0];
    const bool is_needed = gradient.defined() && task_should_compute_output(1);
    return {gradient, is_needed ? gradient.to(added_type) : at::Tensor()};
  }
  std::string name() const override { return "AddRoundedBackward"; }
};

}  // namespace

at::Tensor add_rounded(const at::Tensor& x, const at::Tensor& added) {
  TORCH_CHECK(x.sizes() == added.sizes(),
              "[add_rounded] expected one shape, got ",
              x.sizes(),
              " and ",
              added.sizes());
  static const auto op = find_operator<decltype(reference::add_rounded)>("reprise::add_rounded");
  const auto node = node_over<AddRoundedBackward>(x, added);
  at::Tensor sum;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    sum = op.call(x, added);
  }
  if (node != nullptr) {
    node->added_type = added.scalar_type();
    torch::autograd::set_history(sum, node);
  }
  return sum;
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def("add_rounded(Tensor x, Tensor added) -> Tensor");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("add_rounded", reference::add_rounded);
}

}  // namespace reprise::ops
