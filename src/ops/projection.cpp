#include "ops/projection.h"

#include "ops/node.h"
#include "ops/product.h"

#include <ATen/ATen.h>

namespace reprise::ops {

void check_projection(const char* name,
                      const at::Tensor& x,
                      const at::Tensor& weight,
                      const at::Tensor& bias,
                      const at::Tensor& stream) {
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
    gradients.x = product(rows, weight).view(sizes);
  }
  if (needs.weight) {
    gradients.weight = product(rows, x.reshape({-1, x.size(-1)}), {.a = true});
  }
  if (needs.bias) {
    gradients.bias = rows.sum(0);
  }
  return gradients;
}

}  // namespace reprise::ops
