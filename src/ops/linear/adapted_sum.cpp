#include "ops/linear/adapted_sum.h"

#include "ops/linear/adapter_products.h"
#include "ops/linear/saved_adapters.h"
#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <string>

namespace reprise::ops {

namespace reference {

at::Tensor adapted_sum(const at::Tensor& product,
                       const at::Tensor& x,
                       at::TensorList a,
                       at::TensorList b,
                       at::IntArrayRef starts,
                       at::ArrayRef<double> scales,
                       double dropout,
                       const std::optional<at::Tensor>& seed) {
  auto sum = product.clone(at::MemoryFormat::Contiguous);
  ops::add_adapters(sum, x, adapters_of(a, b, starts, scales, dropout, seed));
  return sum;
}

}  // namespace reference

namespace {

struct AdaptedSumBackward : torch::autograd::Node {
  SavedVariable x;
  SavedAdapters adapters;
  std::vector<int64_t> sizes;  // of x
  at::TensorOptions options;

  // Gradients of product and x, then of every a, then of every b.
  variable_list apply(variable_list&& gradients) override {
    const auto& gradient = gradients[0];
    if (!gradient.defined()) {
      return variable_list(num_outputs());
    }
    check_differentiated_once("adapted_sum");
    const auto factors = adapter_needs(*this, 2, adapters.count());
    const auto input = factors.a || factors.b ? x.unpack() : at::Tensor();
    const AdapterBackward backward(adapters.unpack(), gradient);
    at::Tensor for_x;
    if (task_should_compute_output(1)) {
      for_x = at::zeros(sizes, options);
      backward.add_to(for_x);
    }
    variable_list results{gradient, for_x};
    append(results, backward.factors(input, factors));
    return results;
  }
  void release_variables() override {
    x.reset_data();
    adapters.release();
  }
  std::string name() const override { return "AdaptedSumBackward"; }
};

void check_product(const at::Tensor& product, const at::Tensor& x) {
  auto sizes = x.sizes().vec();
  TORCH_CHECK(!sizes.empty() && product.dim() == x.dim() && product.device() == x.device(),
              "[adapted_sum] expected a product (..., out) for x (..., in) on one device, got ",
              product.sizes(),
              " on ",
              product.device(),
              " and ",
              x.sizes(),
              " on ",
              x.device());
  sizes.back() = product.size(-1);
  TORCH_CHECK(product.sizes() == sizes,
              "[adapted_sum] expected a product of ",
              sizes,
              ", got ",
              product.sizes());
}

}  // namespace

at::Tensor adapted_sum(const at::Tensor& product, const at::Tensor& x, const Adapters& adapters) {
  check_product(product, x);
  check_adapters("adapted_sum", x, x.size(-1), product.size(-1), adapters);
  static const auto op = find_operator<decltype(reference::adapted_sum)>("reprise::adapted_sum");
  const auto node = node_over<AdaptedSumBackward>(
      product, x, at::TensorList(adapters.a), at::TensorList(adapters.b));
  if (node != nullptr) {
    if (are_trained(adapters)) {
      node->x = saved_input(x);
    }
    node->adapters.save(adapters);
    node->sizes = x.sizes().vec();
    node->options = x.options().requires_grad(false);
  }
  auto sum = call_with(op, adapters, product, x);
  if (node != nullptr) {
    torch::autograd::set_history(sum, node);
  }
  return sum;
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      (std::string("adapted_sum(Tensor product, Tensor x, ") + kAdapterArguments + ") -> Tensor")
          .c_str());
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("adapted_sum", reference::adapted_sum);
}

}  // namespace reprise::ops
