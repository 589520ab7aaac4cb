#include "ops/linear/linear_gradients.h"

#include "ops/linear/matmul.h"
#include "ops/node.h"

#include "memory/planned_device.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

namespace reprise::ops {

namespace {

// rows^T x, (out, in), in the weight's type.
at::Tensor weight_gradient(const at::Tensor& rows, const at::Tensor& x, at::ScalarType type) {
  const bool is_narrow = rows.scalar_type() == at::kBFloat16 || rows.scalar_type() == at::kHalf;
  if (memory::is_for_cuda(rows.device()) && is_narrow && type == at::kFloat && rows.numel() > 0) {
    auto sum = at::empty({rows.size(1), x.size(1)}, rows.options().dtype(type));
    matmul_into(sum, rows, x, {.a = true});
    return sum;
  }
  return ops::matmul(rows, x, {.a = true}).to(type);
}

}  // namespace

void check_linear_types(const char* name,
                        const at::Tensor& x,
                        const Weight& weight,
                        const at::Tensor& bias) {
  if (weight.is_made()) {
    return;
  }
  const auto type = weight.tensor().scalar_type();
  // Autocast leaves float64 alone.
  const bool fits = type == x.scalar_type() ||
                    (type != at::kDouble && x.scalar_type() != at::kDouble &&
                     at::autocast::is_autocast_enabled(memory::kernel_type(x.device())));
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

void check_linear(const char* name,
                  const at::Tensor& x,
                  const Weight& weight,
                  const at::Tensor& bias,
                  const at::Tensor& residual) {
  check_linear_types(name, x, weight, bias);
  const auto is_here = [&](const auto& tensor) { return tensor.device() == x.device(); };
  TORCH_CHECK(
      x.dim() > 0 && weight.sizes().size() == 2 && weight.in() == x.size(-1) && is_here(weight) &&
          (!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.out() && is_here(bias))),
      "[",
      name,
      "] expected x (..., in), a weight (out, in) and a bias (out) on one device, got ",
      x.sizes(),
      " and ",
      weight.sizes());
  if (residual.defined()) {
    auto sizes = x.sizes().vec();
    sizes.back() = weight.out();
    TORCH_CHECK(residual.sizes() == sizes && is_here(residual),
                "[",
                name,
                "] expected a residual of ",
                sizes,
                " on ",
                x.device(),
                ", got ",
                residual.sizes(),
                " on ",
                residual.device());
  }
}

LinearGradients linear_gradients(const at::Tensor& gradient,
                                 const at::Tensor& x,
                                 const at::Tensor& weight,
                                 const LinearNeeds& needs) {
  check_differentiated_once("linear");
  const auto rows = gradient.reshape({-1, gradient.size(-1)});
  LinearGradients gradients;
  if (needs.x) {
    auto sizes = gradient.sizes().vec();
    sizes.back() = weight.size(1);
    gradients.x = ops::matmul(rows, weight.to(rows.scalar_type())).view(sizes);
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
