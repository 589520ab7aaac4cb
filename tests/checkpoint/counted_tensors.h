// Tensors of one size, large beside what malloc rounds up: bytes are compared as counts of them.
#pragma once

#include "support/tensors.h"

#include <cmath>
#include <cstdint>

namespace reprise::testing {

constexpr int64_t kSide = 256;
constexpr int64_t kTensorBytes = kSide * kSide * static_cast<int64_t>(sizeof(float));

/// `bytes` in tensors of this size. Scalars and malloc's rounding disappear.
inline int64_t in_tensors(int64_t bytes) {
  return std::lround(static_cast<double>(bytes) / static_cast<double>(kTensorBytes));
}

inline at::Tensor counted_input() {
  return torch::linspace(0, 1, kSide * kSide).reshape({kSide, kSide}).requires_grad_();
}

}  // namespace reprise::testing
