#include "ops/rms_norm.h"

#include "ops/node.h"
#include "ops/operator.h"
#include "ops/reference.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <tuple>

namespace reprise::ops {

namespace reference {

namespace {

// weight + offset, summed in the wide type.
at::Tensor norm_factors(const at::Tensor& weight, double offset, at::ScalarType type) {
  return offset == 0 ? weight : weight.to(type) + offset;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x,
                                            const at::Tensor& weight,
                                            double epsilon,
                                            double offset) {
  const auto wide = x.to(wide_type(x));
  const auto scale = at::rsqrt(wide.square().mean({-1}, /*keepdim=*/true).add_(epsilon));
  return {(wide * scale).mul_(norm_factors(weight, offset, wide_type(x))).to(x.scalar_type()),
          scale};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(
    const at::Tensor& gradient,
    const std::optional<at::Tensor>& residual_gradient,
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& scale,
    bool needs_weight,
    double offset) {
  const auto type = wide_type(x);
  const auto normed = x.to(type) * scale;
  const auto wide = gradient.to(type);
  at::Tensor for_weight;
  if (needs_weight) {
    for_weight = (wide * normed).reshape({-1, x.size(-1)}).sum(0).to(weight.scalar_type());
  }
  const auto slope = wide * norm_factors(weight, offset, type).to(type);
  const auto mean = (slope * normed).mean({-1}, /*keepdim=*/true);
  auto for_x = slope.sub_(normed * mean).mul_(scale);
  if (residual_gradient) {
    for_x = for_x.add_(*residual_gradient);
  }
  return {for_x.to(x.scalar_type()), for_weight};
}

}  // namespace reference

namespace {

struct RmsNormBackward : torch::autograd::Node {
  SavedVariable x, weight, scale;
  double offset = 0;

  // Gradients of the residual (if it is an output) and of the normed rows.
  variable_list apply(variable_list&& gradients) override {
    const auto& of_normed = gradients.back();
    const auto of_residual = gradients.size() == 2 ? gradients[0] : at::Tensor();
    if (!of_normed.defined()) {
      return {of_residual, at::Tensor()};
    }
    check_differentiated_once("rms_norm");
    static const auto op =
        find_operator<decltype(reference::rms_norm_backward)>("reprise::rms_norm_backward");
    auto [for_x, for_weight] = op.call(of_normed,
                                       as_optional(of_residual),
                                       x.unpack(),
                                       weight.unpack(),
                                       scale.unpack(),
                                       task_should_compute_output(1),
                                       offset);
    return {for_x, for_weight};
  }
  void release_variables() override {
    x.reset_data();
    weight.reset_data();
    scale.reset_data();
  }
  std::string name() const override { return "RmsNormBackward"; }
};

// `residual`: null, or where to put an alias of x that has the node as its history.
at::Tensor normed_of(const at::Tensor& x,
                     const NormWeight& norm,
                     double epsilon,
                     at::Tensor* residual) {
  const at::Tensor& weight = norm.weight;
  TORCH_CHECK(x.dim() > 0 && weight.dim() == 1 && weight.size(0) == x.size(-1),
              "[rms_norm] expected x (..., width) and a weight (width), got ",
              x.sizes(),
              " and ",
              weight.sizes());
  static const auto op = find_operator<decltype(reference::rms_norm)>("reprise::rms_norm");
  const auto node = node_over<RmsNormBackward>(x, weight);
  if (node != nullptr) {
    node->x = saved_input(x);
    node->weight = saved_input(weight);
    node->offset = norm.offset;
  }
  at::Tensor normed, scale;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    std::tie(normed, scale) = op.call(x, weight, epsilon, norm.offset);
    if (residual != nullptr) {
      *residual = node == nullptr ? x : at::alias(x);
    }
  }
  if (node != nullptr) {
    node->scale = saved_input(scale);
    if (residual != nullptr) {
      torch::autograd::impl::set_version_counter(*residual,
                                                 torch::autograd::impl::version_counter(x));
      torch::autograd::set_history(*residual, node);
    }
    torch::autograd::set_history(normed, node);
  }
  return normed;
}

}  // namespace

Fork fork_rms_norm(const at::Tensor& x, const NormWeight& weight, double epsilon) {
  Fork fork;
  fork.normed = normed_of(x, weight, epsilon, &fork.residual);
  return fork;
}

at::Tensor rms_norm(const at::Tensor& x, const NormWeight& weight, double epsilon) {
  return normed_of(x, weight, epsilon, nullptr);
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      "rms_norm(Tensor x, Tensor weight, float epsilon, float offset=0) -> (Tensor normed, Tensor "
      "scale)");
  library.def(
      "rms_norm_backward(Tensor gradient, Tensor? residual_gradient, Tensor x, Tensor weight, "
      "Tensor scale, bool needs_weight, float offset=0) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("rms_norm", reference::rms_norm);
  library.impl("rms_norm_backward", reference::rms_norm_backward);
}

}  // namespace reprise::ops
