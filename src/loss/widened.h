// Losses are computed in float32 at least: bfloat16 has too few digits for a sum of
// log-probabilities.
#pragma once

#include <ATen/core/Tensor.h>

namespace reprise {

/// float64 stays, everything else becomes float32.
inline at::Tensor widened(const at::Tensor& values) {
  return values.scalar_type() == at::kDouble ? values : values.to(at::kFloat);
}

}  // namespace reprise
