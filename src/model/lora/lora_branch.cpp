#include "model/lora/lora_branch.h"

#include "ops/linear/aten_linear.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace reprise {

LoraBranch::LoraBranch(const Shape& shape,
                       double scale,
                       double dropout,
                       const at::TensorOptions& options)
    : scale_(scale), dropout_(dropout) {
  a = register_parameter("A", at::empty({shape.rank, shape.in}, options));
  b = register_parameter("B", at::empty({shape.out, shape.rank}, options));
}

at::Tensor LoraBranch::apply_a(const at::Tensor& x, bool training) const {
  return ops::aten_linear(at::dropout(x, dropout_, training), a).mul(scale_);
}

at::Tensor LoraBranch::forward(const at::Tensor& x, bool training) const {
  return ops::aten_linear(apply_a(x.to(a.scalar_type()), training), b);
}

at::Tensor LoraBranch::delta() const {
  const auto dtype = c10::promoteTypes(a.scalar_type(), at::kFloat);
  return at::matmul(b.to(dtype), a.to(dtype)).mul(scale_);
}

std::shared_ptr<LoraBranch> LoraBranch::frozen_copy() const {
  const at::NoGradGuard no_grad;
  auto copy = std::make_shared<LoraBranch>(
      Shape{a.size(1), b.size(0), rank()}, scale_, dropout_, a.options());
  copy->a.copy_(a);
  copy->b.copy_(b);
  copy->a.requires_grad_(false);
  copy->b.requires_grad_(false);
  return copy;
}

}  // namespace reprise
