#include "ops/projection.h"

#include "ops/node.h"
#include "ops/product.h"

#include <ATen/ATen.h>

namespace reprise::ops {

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
