// The parts of clip_grad_norm() that do not depend on where gradients are.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace reprise {

void check_max_norm(double max_norm);
/// The 2-norm of all, from the norms of each.
at::Tensor norm_of_norms(const std::vector<at::Tensor>& norms);
/// What gradients of this norm are multiplied by; 1 if it is small enough.
at::Tensor clip_factor(const at::Tensor& norm, double max_norm);

}  // namespace reprise
