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

void add_rounded_into_(at::Tensor& out, const at::Tensor& x, const at::Tensor& added) {
  at::add_out(out, x, added);
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

void add_rounded_into(at::Tensor& out, const at::Tensor& x, const at::Tensor& added) {
  TORCH_CHECK(out.sizes() == x.sizes() && x.sizes() == added.sizes() &&
                  out.scalar_type() == x.scalar_type(),
              "[add_rounded] expected one shape and a sum of the type of x, got ",
              out.scalar_type(),
              out.sizes(),
              " for ",
              x.scalar_type(),
              x.sizes(),
              " and ",
              added.sizes());
  static const auto op =
      find_operator<decltype(reference::add_rounded_into_)>("reprise::add_rounded_into_");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.call(out, x, added);
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def("add_rounded(Tensor x, Tensor added) -> Tensor");
  library.def("add_rounded_into_(Tensor(a!) out, Tensor x, Tensor added) -> ()");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("add_rounded", reference::add_rounded);
  library.impl("add_rounded_into_", reference::add_rounded_into_);
}

}  // namespace reprise::ops
