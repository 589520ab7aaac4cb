#include "ops/linear/qkv_rope.h"

#include "ops/linear/adapter_products.h"
#include "ops/linear/linear_gradients.h"
#include "ops/linear/saved_adapters.h"
#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"
#include "ops/rotate.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <string>
#include <tuple>

namespace reprise::ops {

namespace reference {

std::tuple<at::Tensor, at::Tensor, at::Tensor> qkv_rope(const at::Tensor& x,
                                                        const at::Tensor& weight,
                                                        const std::optional<at::Tensor>& bias,
                                                        const at::Tensor& cos,
                                                        const at::Tensor& sin,
                                                        int64_t heads,
                                                        int64_t kv_heads,
                                                        int64_t rotary_dims,
                                                        bool interleaved,
                                                        at::TensorList a,
                                                        at::TensorList b,
                                                        at::IntArrayRef starts,
                                                        at::ArrayRef<double> scales,
                                                        double dropout,
                                                        const std::optional<at::Tensor>& seed) {
  auto product = reference::linear(x, weight, bias);
  if (!a.empty()) {
    ops::add_adapters(product, x, adapters_of(a, b, starts, scales, dropout, seed));
  }
  const auto all = product.unflatten(-1, {heads + 2 * kv_heads, -1}).transpose(1, 2);
  auto both = all.narrow(1, 0, heads + kv_heads);
  both.copy_(rotate(both, cos, sin, rotary_dims, interleaved));
  const auto parts = all.split_with_sizes({heads, kv_heads, kv_heads}, 1);
  return {parts[0], parts[1], parts[2]};
}

// The gradient of the product: (B, T, (heads + 2 kv_heads) head_dim).
at::Tensor qkv_rope_backward(const at::Tensor& query,
                             const at::Tensor& key,
                             const at::Tensor& value,
                             const at::Tensor& cos,
                             const at::Tensor& sin,
                             int64_t rotary_dims,
                             bool interleaved) {
  const auto back = sin.neg();
  return at::cat({rotate(query, cos, back, rotary_dims, interleaved),
                  rotate(key, cos, back, rotary_dims, interleaved),
                  value},
                 1)
      .transpose(1, 2)
      .flatten(2);
}

}  // namespace reference

namespace {

struct QkvRopeBackward : torch::autograd::Node {
  SavedVariable x, cos, sin;
  SavedWeight weight;
  SavedAdapters adapters;
  HeadLayout layout;
  int64_t batch = 0, length = 0;
  at::TensorOptions options;

  at::Tensor or_zeros(const at::Tensor& gradient, int64_t heads) const {
    return gradient.defined() ? gradient
                              : at::zeros({batch, heads, length, layout.head_dim}, options);
  }

  // Gradients of x, weight and bias, then of every a, then of every b.
  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined() && !gradients[1].defined() && !gradients[2].defined()) {
      return variable_list(num_outputs());
    }
    check_differentiated_once("qkv_rope");
    static const auto op =
        find_operator<decltype(reference::qkv_rope_backward)>("reprise::qkv_rope_backward");
    const auto of_product = op.call(or_zeros(gradients[0], layout.heads),
                                    or_zeros(gradients[1], layout.kv_heads),
                                    or_zeros(gradients[2], layout.kv_heads),
                                    cos.unpack(),
                                    sin.unpack(),
                                    layout.rotary_dims,
                                    layout.interleaved);
    const LinearNeeds needs{.x = task_should_compute_output(0),
                            .weight = task_should_compute_output(1),
                            .bias = task_should_compute_output(2)};
    const auto factors = adapter_needs(*this, 3, adapters.count());
    const bool reads_x = needs.weight || factors.a || factors.b;
    const auto input = reads_x ? x.unpack() : at::Tensor();
    auto [for_x, for_weight, for_bias] = linear_gradients(
        of_product, input, weight.unpack_if(needs.any(), of_product.scalar_type()), needs);
    variable_list results{for_x, for_weight, for_bias};
    if (adapters.count() > 0) {
      const AdapterBackward backward(adapters.unpack(), of_product);
      if (for_x.defined()) {
        backward.add_to(for_x);
      }
      append(results, backward.factors(input, factors));
    }
    return results;
  }
  void release_variables() override {
    x.reset_data();
    weight.release();
    cos.reset_data();
    sin.reset_data();
    adapters.release();
  }
  std::string name() const override { return "QkvRopeBackward"; }
};

}  // namespace

Heads qkv_rope(const at::Tensor& x,
               const Weight& weight,
               const at::Tensor& bias,
               const Adapters& adapters,
               const at::Tensor& cos,
               const at::Tensor& sin,
               const HeadLayout& layout) {
  TORCH_CHECK(x.dim() == 3 && weight.sizes().size() == 2 &&
                  weight.out() == (layout.heads + 2 * layout.kv_heads) * layout.head_dim,
              "[qkv_rope] expected x (B, T, in) and a weight for ",
              layout.heads,
              " + 2 * ",
              layout.kv_heads,
              " heads of ",
              layout.head_dim,
              ", got ",
              x.sizes(),
              " and ",
              weight.sizes());
  check_linear("qkv_rope", x, weight, bias, {});
  if (!adapters.empty()) {
    check_adapters("qkv_rope", x, x.size(-1), weight.out(), adapters);
  }
  const auto fits = [&](const at::Tensor& table) {
    return table.scalar_type() == at::kFloat && table.dim() == 4 && table.size(1) == 1 &&
           (table.size(0) == 1 || table.size(0) == x.size(0)) && table.size(2) == x.size(1) &&
           table.size(3) == layout.rotary_dims / 2 && table.device() == x.device();
  };
  TORCH_CHECK(fits(cos) && fits(sin) && cos.sizes() == sin.sizes(),
              "[qkv_rope] expected float32 tables (B or 1, 1, ",
              x.size(1),
              ", ",
              layout.rotary_dims / 2,
              "), got ",
              cos.sizes(),
              " and ",
              sin.sizes());
  static const auto op = find_operator<decltype(reference::qkv_rope)>("reprise::qkv_rope");
  const auto node = node_over<QkvRopeBackward>(
      x, weight.tensor(), bias, at::TensorList(adapters.a), at::TensorList(adapters.b));
  if (node != nullptr) {
    if (weight.is_trained() || are_trained(adapters)) {
      node->x = saved_input(x);
    }
    node->weight.save(weight);
    node->cos = saved_input(cos);
    node->sin = saved_input(sin);
    node->layout = layout;
    node->batch = x.size(0);
    node->length = x.size(1);
    node->options = x.options().requires_grad(false);
    node->adapters.save(adapters);
  }
  Heads result;
  std::tie(result.query, result.key, result.value) = call_with(op,
                                                               adapters,
                                                               x,
                                                               weight.for_product(x.scalar_type()),
                                                               as_optional(bias),
                                                               cos,
                                                               sin,
                                                               layout.heads,
                                                               layout.kv_heads,
                                                               layout.rotary_dims,
                                                               layout.interleaved);
  if (node != nullptr) {
    for (auto* part : {&result.query, &result.key, &result.value}) {
      torch::autograd::set_history(*part, node);
    }
  }
  return result;
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      (std::string("qkv_rope(Tensor x, Tensor weight, Tensor? bias, Tensor cos, Tensor sin, "
                   "int heads, int kv_heads, int rotary_dims, bool interleaved, ") +
       kAdapterArguments + ") -> (Tensor query, Tensor key, Tensor value)")
          .c_str());
  library.def(
      "qkv_rope_backward(Tensor query, Tensor key, Tensor value, Tensor cos, Tensor sin, "
      "int rotary_dims, bool interleaved) -> Tensor");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("qkv_rope", reference::qkv_rope);
  library.impl("qkv_rope_backward", reference::qkv_rope_backward);
}

}  // namespace reprise::ops
