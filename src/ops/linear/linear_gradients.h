// Checks and gradients of y = x weight^T + bias, for the operators that contain a linear layer.
//
// Note [Weights wider than what they multiply]
// Under autocast x is narrow and weights are float32. Our operators convert a weight where they
// multiply with it, in forward and again in backward, and save the parameter itself. Autocast would
// convert it before the operator, so that a narrow copy of every weight lived from forward to
// backward: half the model once more, to save a conversion that takes a hundredth of the matmul's
// time.
#pragma once

#include "ops/linear/weight.h"

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// Checks that weight and bias have the type of x, or that autocast is on and converts them. A
/// weight that is made has the type of x.
void check_linear_types(const char* name,
                        const at::Tensor& x,
                        const Weight& weight,
                        const at::Tensor& bias);

/// Checks the types, and that x (..., in), weight (out, in), bias (out) or undefined and residual
/// (..., out) or undefined fit together and are on one device.
void check_linear(const char* name,
                  const at::Tensor& x,
                  const Weight& weight,
                  const at::Tensor& bias,
                  const at::Tensor& residual);

/// Which gradients are needed.
struct LinearNeeds {
  bool x = false, weight = false, bias = false;

  bool any() const { return x || weight || bias; }
};

/// Undefined where not needed.
struct LinearGradients {
  at::Tensor x, weight, bias;
};

/// gradient (..., out), weight (out, in); x (..., in) is needed for the weight's gradient only, and
/// the weight not at all if nothing is needed.
/// Gradients of weight and bias have the weight's type; on a GPU they are not rounded to the
/// narrower type of `gradient` on the way.
LinearGradients linear_gradients(const at::Tensor& gradient,
                                 const at::Tensor& x,
                                 const at::Tensor& weight,
                                 const LinearNeeds& needs);

}  // namespace reprise::ops
