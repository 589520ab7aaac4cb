// Gradients of a projection y = x weight^T + bias, for operators that contain one.
#pragma once

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// That x (..., in), weight (out, in), bias (out) or undefined and stream (..., out) or undefined
/// fit together, on one device.
void check_projection(const char* name,
                      const at::Tensor& x,
                      const at::Tensor& weight,
                      const at::Tensor& bias,
                      const at::Tensor& stream);

struct ProjectionNeeds {
  bool x = false, weight = false, bias = false;
};

/// Undefined where not needed.
struct ProjectionGradients {
  at::Tensor x, weight, bias;
};

/// gradient (..., out), weight (out, in); x (..., in) only for the weight's.
ProjectionGradients projection_gradients(const at::Tensor& gradient,
                                         const at::Tensor& x,
                                         const at::Tensor& weight,
                                         const ProjectionNeeds& needs);

}  // namespace reprise::ops
