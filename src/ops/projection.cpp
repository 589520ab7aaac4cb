#include "ops/projection.h"

#include "ops/few_rows_linear.h"
#include "ops/node.h"
#include "ops/product.h"

#include <reprise/detail/planned_device.h>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

namespace reprise::ops {

namespace {

// rows^T x, (out, in), in the type of the weight.
at::Tensor weight_gradient(const at::Tensor& rows, const at::Tensor& x, at::ScalarType type) {
  const bool is_narrow = rows.scalar_type() == at::kBFloat16 || rows.scalar_type() == at::kHalf;
  if (detail::is_for_cuda(rows.device()) && is_narrow && type == at::kFloat && rows.numel() > 0) {
    auto sum = at::empty({rows.size(1), x.size(1)}, rows.options().dtype(type));
    product_into(sum, rows, x, {.a = true});
    return sum;
  }
  return product(rows, x, {.a = true}).to(type);
}

}  // namespace

void check_types(const char* name,
                 const at::Tensor& x,
                 const at::Tensor& weight,
                 const at::Tensor& bias) {
  const auto type = weight.scalar_type();
  // Autocast leaves float64 alone.
  const bool fits = type == x.scalar_type() ||
                    (type != at::kDouble && x.scalar_type() != at::kDouble &&
                     at::autocast::is_autocast_enabled(detail::kernel_type(x.device())));
  TORCH_CHECK(fits && (!bias.defined() || bias.scalar_type() == type),
              "[",
              name,
              "] expected x, weight and bias of one type, got ",
              x.scalar_type(),
              ", ",
              type,
              " and ",
              bias.defined() ? bias.scalar_type() : type,
              ": convert them, or use autocast over float32 weights.");
}

at::Tensor project(const at::Tensor& x,
                   const at::Tensor& weight,
                   const std::optional<at::Tensor>& bias) {
  const auto type = x.scalar_type();
  return apply_linear(x, weight.to(type), bias ? bias->to(type) : at::Tensor());
}

void check_projection(const char* name,
                      const at::Tensor& x,
                      const at::Tensor& weight,
                      const at::Tensor& bias,
                      const at::Tensor& stream) {
  check_types(name, x, weight, bias);
  const auto is_here = [&](const at::Tensor& tensor) { return tensor.device() == x.device(); };
  TORCH_CHECK(
      x.dim() > 0 && weight.dim() == 2 && weight.size(1) == x.size(-1) && is_here(weight) &&
          (!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0) && is_here(bias))),
      "[",
      name,
      "] expected x (..., in), a weight (out, in) and a bias (out) on one device, got ",
      x.sizes(),
      " and ",
      weight.sizes());
  if (stream.defined()) {
    auto sizes = x.sizes().vec();
    sizes.back() = weight.size(0);
    TORCH_CHECK(stream.sizes() == sizes && is_here(stream),
                "[",
                name,
                "] expected a stream of ",
                sizes,
                " on ",
                x.device(),
                ", got ",
                stream.sizes(),
                " on ",
                stream.device());
  }
}

ProjectionGradients projection_gradients(const at::Tensor& gradient,
                                         const at::Tensor& x,
                                         const at::Tensor& weight,
                                         const ProjectionNeeds& needs) {
  check_differentiated_once("linear");
  const auto rows = gradient.reshape({-1, gradient.size(-1)});
  ProjectionGradients gradients;
  if (needs.x) {
    auto sizes = gradient.sizes().vec();
    sizes.back() = weight.size(1);
    gradients.x = product(rows, weight.to(rows.scalar_type())).view(sizes);
  }
  if (needs.weight) {
    gradients.weight = weight_gradient(rows, x.reshape({-1, x.size(-1)}), weight.scalar_type());
  }
  if (needs.bias) {
    gradients.bias = rows.sum({0}, /*keepdim=*/false, weight.scalar_type());
  }
  return gradients;
}

}  // namespace reprise::ops
