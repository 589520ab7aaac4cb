// Gradients of a projection y = x weight^T + bias, for operators that contain one.
#pragma once

#include <ATen/core/Tensor.h>

namespace reprise::ops {

struct ProjectionNeeds {
  bool x = false, weight = false, bias = false;
};

/// Undefined where not needed.
struct ProjectionGradients {
  at::Tensor x, weight, bias;
};

/// gradient (..., out), x (..., in), weight (out, in).
ProjectionGradients projection_gradients(const at::Tensor& gradient,
                                         const at::Tensor& x,
                                         const at::Tensor& weight,
                                         const ProjectionNeeds& needs);

}  // namespace reprise::ops
