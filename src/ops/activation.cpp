#include "ops/activation.h"

#include <ATen/ATen.h>

namespace reprise::ops {

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::Silu:
      return at::silu(x);
    case Activation::Gelu:
      return at::gelu(x);
    case Activation::GeluTanh:
      return at::gelu(x, "tanh");
    case Activation::Relu:
      return at::relu(x);
    case Activation::SquaredRelu:
      break;
  }
  return at::relu(x).square();
}

at::Tensor activate_backward(Activation activation,
                             const at::Tensor& gradient,
                             const at::Tensor& x) {
  switch (activation) {
    case Activation::Silu:
      return at::silu_backward(gradient, x);
    case Activation::Gelu:
      return at::gelu_backward(gradient, x);
    case Activation::GeluTanh:
      return at::gelu_backward(gradient, x, "tanh");
    case Activation::Relu:
      return at::threshold_backward(gradient, x, 0);
    case Activation::SquaredRelu:
      break;
  }
  return gradient * at::relu(x) * 2;
}

}  // namespace reprise::ops
