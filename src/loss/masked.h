// Masking of per-token values. Values outside the mask are replaced, not multiplied by 0, because
// they may be NaN.
#pragma once

#include "loss/upcast.h"

#include <ATen/ATen.h>

#include <initializer_list>
#include <utility>

namespace reprise {

/// The values inside the mask (bool), in at least float32, and 0 elsewhere. Differentiable.
inline at::Tensor masked(const at::Tensor& values, const at::Tensor& mask) {
  return upcast(values).masked_fill(~mask, 0);
}

/// mask (B, T) of any dtype as bool. Throws unless all `tensors` are defined and have its shape.
inline at::Tensor checked_mask(
    const char* whose,
    const at::Tensor& mask,
    std::initializer_list<std::pair<const char*, const at::Tensor&>> tensors) {
  TORCH_CHECK(mask.defined() && mask.dim() == 2, "[", whose, "] expected a mask of shape (B, T)");
  for (const auto& [name, tensor] : tensors) {
    TORCH_CHECK(tensor.defined(), "[", whose, "] ", name, " are required but missing");
    TORCH_CHECK(tensor.sizes() == mask.sizes(),
                "[",
                whose,
                "] expected ",
                name,
                " with the shape of the mask, ",
                mask.sizes(),
                "; found ",
                tensor.sizes());
  }
  return mask.to(at::kBool);
}

}  // namespace reprise
