#include "model/lora/lora_branch.h"

#include "ops/linear/aten_linear.h"
#include "ops/lora_norms.h"

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
  if (shape.has_magnitude) {
    magnitude = register_parameter("magnitude", at::empty({shape.out}, options));
  }
}

at::Tensor LoraBranch::first_matrix() const {
  return subtracts_start() ? at::cat({a, start_a}, 0) : a;
}

at::Tensor LoraBranch::last_matrix() const {
  return subtracts_start() ? at::cat({b, minus_start_b}, 1) : b;
}

at::Tensor LoraBranch::forward(const at::Tensor& x) const {
  const auto inner = ops::aten_linear(x.to(a.scalar_type()), first_matrix()).mul(scale_);
  return ops::aten_linear(inner, last_matrix());
}

at::Tensor LoraBranch::delta() const {
  const auto dtype = c10::promoteTypes(a.scalar_type(), at::kFloat);
  return at::matmul(last_matrix().to(dtype), first_matrix().to(dtype)).mul(scale_);
}

at::Tensor LoraBranch::merged(const at::Tensor& weight) const {
  const auto sum = weight + delta();
  return is_dora() ? sum * row_factors(weight).unsqueeze(1) : sum;
}

at::Tensor LoraBranch::row_norms(const at::Tensor& weight) const {
  return ops::lora_norms(weight, a, b, scale_);
}

at::Tensor LoraBranch::row_factors(const at::Tensor& weight) const {
  return magnitude / row_norms(weight);
}

void LoraBranch::subtract_start() {
  start_a = register_buffer("A0", a.detach().clone());
  minus_start_b = register_buffer("minus_B0", b.detach().neg());
}

std::shared_ptr<LoraBranch> LoraBranch::frozen_copy() const {
  const at::NoGradGuard no_grad;
  auto copy = std::make_shared<LoraBranch>(
      Shape{a.size(1), b.size(0), rank(), is_dora()}, scale_, dropout_, a.options());
  const auto from = named_parameters(), to = copy->named_parameters();
  for (const auto& item : to) {
    item.value().copy_(from[item.key()]);
    item.value().requires_grad_(false);
  }
  if (subtracts_start()) {
    copy->start_a = copy->register_buffer("A0", start_a);
    copy->minus_start_b = copy->register_buffer("minus_B0", minus_start_b);
  }
  return copy;
}

}  // namespace reprise
