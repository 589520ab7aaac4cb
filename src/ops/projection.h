// A projection y = x weight^T + bias and its gradients, for operators that contain one.
//
// Note [Weights wider than what they multiply]
// Under autocast x is narrow and weights are float32. Operators convert a weight where they
// multiply with it, in forward and again in backward, and keep the parameter itself. Converted
// before the operator, as autocast does it, a narrow copy of every weight would live from forward
// to backward: half the model once more, for a pass over it that takes a hundredth of the products'
// time.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace reprise::ops {

/// That weight and bias have the type of x, or that autocast is on and converts them.
void check_types(const char* name,
                 const at::Tensor& x,
                 const at::Tensor& weight,
                 const at::Tensor& bias);

/// The same, and that x (..., in), weight (out, in), bias (out) or undefined and stream (..., out)
/// or undefined fit together, on one device.
void check_projection(const char* name,
                      const at::Tensor& x,
                      const at::Tensor& weight,
                      const at::Tensor& bias,
                      const at::Tensor& stream);

/// x weight^T + bias in the type of x, by ATen. Below autograd.
at::Tensor project(const at::Tensor& x,
                   const at::Tensor& weight,
                   const std::optional<at::Tensor>& bias);

struct ProjectionNeeds {
  bool x = false, weight = false, bias = false;
};

/// Undefined where not needed.
struct ProjectionGradients {
  at::Tensor x, weight, bias;
};

/// gradient (..., out), weight (out, in); x (..., in) only for the weight's. Those of weight and
/// bias in the weight's type, which on a GPU are not rounded to the gradient's on the way.
ProjectionGradients projection_gradients(const at::Tensor& gradient,
                                         const at::Tensor& x,
                                         const at::Tensor& weight,
                                         const ProjectionNeeds& needs);

}  // namespace reprise::ops
