// Losses are computed in at least float32: bfloat16 is too coarse for sums of log-probabilities.
#pragma once

#include <ATen/core/Tensor.h>

namespace reprise {

/// Converts to float32; float64 stays float64.
inline at::Tensor upcast(const at::Tensor& values) {
  return values.scalar_type() == at::kDouble ? values : values.to(at::kFloat);
}

}  // namespace reprise
