// Activation functions and their gradients by ATen's operators.
#pragma once

#include <reprise/ops/activation.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

at::Tensor activate(Activation activation, const at::Tensor& x);
at::Tensor activate_backward(Activation activation,
                             const at::Tensor& gradient,
                             const at::Tensor& x);

}  // namespace reprise::ops
