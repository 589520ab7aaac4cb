#include "quant/quantized_linear.h"

#include "ops/linear/matmul.h"
#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"
#include "quant/dequantize.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <optional>

namespace reprise::quant {

namespace {

at::Tensor apply(const at::Tensor& x,
                 const at::Tensor& packed,
                 const at::Tensor& scales,
                 const std::optional<at::Tensor>& nested_scales,
                 const std::optional<at::Tensor>& nested_map,
                 double offset,
                 int64_t format,
                 int64_t block,
                 int64_t out,
                 const std::optional<at::Tensor>& bias) {
  static const auto fill =
      ops::find_operator<decltype(reference::dequantize_)>("reprise::dequantize_");
  static const auto multiply =
      ops::find_operator<decltype(ops::reference::linear)>("reprise::linear");
  auto scratch = at::empty({out, x.size(-1)}, x.options().requires_grad(false));
  fill.call(scratch, packed, scales, nested_scales, nested_map, offset, format, block);
  return multiply.call(x, scratch, bias);
}

struct QuantizedLinearBackward : torch::autograd::Node {
  std::shared_ptr<const QuantizedWeight> weight;

  ops::variable_list apply(ops::variable_list&& gradients) override {
    if (!gradients[0].defined()) {
      return ops::variable_list(2);
    }
    ops::check_differentiated_once("quantized_linear");
    const auto rows = gradients[0].reshape({-1, gradients[0].size(-1)});
    at::Tensor for_x, for_bias;
    if (task_should_compute_output(0)) {
      auto sizes = gradients[0].sizes().vec();
      sizes.back() = weight->in;
      for_x = ops::matmul(rows, dequantize(*weight, rows.scalar_type())).view(sizes);
    }
    if (task_should_compute_output(1)) {
      for_bias = rows.sum({0});
    }
    return {for_x, for_bias};
  }
  std::string name() const override { return "QuantizedLinearBackward"; }
};

void check_inputs(const at::Tensor& x, const QuantizedWeight& weight, const at::Tensor& bias) {
  TORCH_CHECK(x.dim() > 0 && x.size(-1) == weight.in && x.device() == weight.device() &&
                  at::isFloatingType(x.scalar_type()),
              "[quantized_linear] expected x (..., ",
              weight.in,
              ") of floating point on ",
              weight.device(),
              ", got ",
              c10::toString(x.scalar_type()),
              " ",
              x.sizes(),
              " on ",
              x.device());
  TORCH_CHECK(
      !bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.out &&
                          bias.device() == x.device() && bias.scalar_type() == x.scalar_type()),
      "[quantized_linear] expected a bias (",
      weight.out,
      ") of the type of x, ",
      c10::toString(x.scalar_type()),
      ", got ",
      bias.defined() ? c10::toString(bias.scalar_type()) : "",
      " ",
      bias.defined() ? bias.sizes() : at::IntArrayRef());
}

}  // namespace

at::Tensor quantized_linear(const at::Tensor& x,
                            const std::shared_ptr<const QuantizedWeight>& weight,
                            const at::Tensor& bias) {
  check_inputs(x, *weight, bias);
  static const auto op = ops::find_operator<decltype(apply)>("reprise::quantized_linear");
  const auto node = ops::node_over<QuantizedLinearBackward>(x, bias);
  if (node != nullptr) {
    node->weight = weight;
  }
  at::Tensor y;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    y = op.call(x,
                weight->packed,
                weight->scales,
                ops::as_optional(weight->nested_scales),
                ops::as_optional(weight->nested_map),
                weight->offset,
                static_cast<int64_t>(weight->scheme.format),
                weight->scheme.block,
                weight->out,
                ops::as_optional(bias));
  }
  if (node != nullptr) {
    torch::autograd::set_history(y, node);
  }
  return y;
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      "quantized_linear(Tensor x, Tensor packed, Tensor scales, Tensor? nested_scales, Tensor? "
      "nested_map, float offset, int format, int block, int out, Tensor? bias) -> Tensor");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("quantized_linear", apply);
}

}  // namespace reprise::quant
