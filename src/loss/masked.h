// Per-token values of completions of uneven length, where what stands behind the end must not be
// seen: 0 * NaN is NaN, so it is replaced, not multiplied.
#pragma once

#include "loss/widened.h"

#include <ATen/ATen.h>

#include <initializer_list>
#include <utility>

namespace reprise {

/// The values under the mask (bool), in float32 at least, 0 elsewhere; differentiable.
inline at::Tensor kept(const at::Tensor& values, const at::Tensor& mask) {
  return widened(values).masked_fill(~mask, 0);
}

/// mask (B, T) of any type as bool, after a check that all these are defined and of its shape.
inline at::Tensor checked_mask(
    const char* whose,
    const at::Tensor& mask,
    std::initializer_list<std::pair<const char*, const at::Tensor&>> tensors) {
  TORCH_CHECK(mask.defined() && mask.dim() == 2, "[", whose, "] expected a mask of shape (B, T)");
  for (const auto& [name, tensor] : tensors) {
    TORCH_CHECK(tensor.defined(), "[", whose, "] ", name, " are needed and were not given");
    TORCH_CHECK(tensor.sizes() == mask.sizes(),
                "[",
                whose,
                "] expected ",
                name,
                " in the shape of the mask, ",
                mask.sizes(),
                "; found ",
                tensor.sizes());
  }
  return mask.to(at::kBool);
}

}  // namespace reprise
