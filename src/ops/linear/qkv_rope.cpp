#include "ops/linear/qkv_rope.h"

#include "ops/linear/linear_gradients.h"
#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"
#include "ops/rotate.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <tuple>

namespace reprise::ops {

namespace reference {

std::tuple<at::Tensor, at::Tensor, at::Tensor> qkv_rope(const at::Tensor& x,
                                                        const at::Tensor& weight,
                                                        const std::optional<at::Tensor>& bias,
                                                        const std::optional<at::Tensor>& added,
                                                        const at::Tensor& cos,
                                                        const at::Tensor& sin,
                                                        int64_t heads,
                                                        int64_t kv_heads,
                                                        int64_t rotary_dims,
                                                        bool interleaved) {
  auto product = reference::linear(x, weight, bias);
  if (added) {
    product.add_(*added);
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
  SavedVariable x, weight, cos, sin;
  HeadLayout layout;
  at::ScalarType added_type = at::kFloat;

  int64_t batch = 0, length = 0;
  at::TensorOptions options;

  at::Tensor or_zeros(const at::Tensor& gradient, int64_t heads) const {
    return gradient.defined() ? gradient
                              : at::zeros({batch, heads, length, layout.head_dim}, options);
  }

  variable_list apply(variable_list&& gradients) override {
    if (!gradients[0].defined() && !gradients[1].defined() && !gradients[2].defined()) {
      return variable_list(4);
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
    auto [for_x, for_weight, for_bias] = linear_gradients(
        of_product, needs.weight ? x.unpack() : at::Tensor(), weight.unpack(), needs);
    const auto for_added = task_should_compute_output(3) ? of_product.to(added_type) : at::Tensor();
    return {for_x, for_weight, for_bias, for_added};
  }
  void release_variables() override {
    x.reset_data();
    weight.reset_data();
    cos.reset_data();
    sin.reset_data();
  }
  std::string name() const override { return "QkvRopeBackward"; }
};

}  // namespace

Heads qkv_rope(const at::Tensor& x,
               const at::Tensor& weight,
               const at::Tensor& bias,
               const at::Tensor& added,
               const at::Tensor& cos,
               const at::Tensor& sin,
               const HeadLayout& layout) {
  TORCH_CHECK(x.dim() == 3 && weight.dim() == 2 &&
                  weight.size(0) == (layout.heads + 2 * layout.kv_heads) * layout.head_dim,
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
  check_linear("qkv_rope", x, weight, bias, added);
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
  const auto node = node_over<QkvRopeBackward>(x, weight, bias, added);
  if (node != nullptr) {
    if (weight.requires_grad()) {
      node->x = saved_input(x);
    }
    node->weight = saved_input(weight);
    node->cos = saved_input(cos);
    node->sin = saved_input(sin);
    node->layout = layout;
    node->batch = x.size(0);
    node->length = x.size(1);
    node->options = x.options().requires_grad(false);
    node->added_type = added.defined() ? added.scalar_type() : at::kFloat;
  }
  Heads result;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    std::tie(result.query, result.key, result.value) = op.call(x,
                                                               weight,
                                                               as_optional(bias),
                                                               as_optional(added),
                                                               cos,
                                                               sin,
                                                               layout.heads,
                                                               layout.kv_heads,
                                                               layout.rotary_dims,
                                                               layout.interleaved);
  }
  if (node != nullptr) {
    for (auto* part : {&result.query, &result.key, &result.value}) {
      torch::autograd::set_history(*part, node);
    }
  }
  return result;
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      "qkv_rope(Tensor x, Tensor weight, Tensor? bias, Tensor? added, Tensor cos, Tensor sin, "
      "int heads, int kv_heads, int rotary_dims, bool interleaved) -> (Tensor query, "
      "Tensor key, Tensor value)");
  library.def(
      "qkv_rope_backward(Tensor query, Tensor key, Tensor value, Tensor cos, Tensor sin, "
      "int rotary_dims, bool interleaved) -> Tensor");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("qkv_rope", reference::qkv_rope);
  library.impl("qkv_rope_backward", reference::qkv_rope_backward);
}

}  // namespace reprise::ops
