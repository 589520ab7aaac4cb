// Tensors of so many MiB.
#pragma once

#include "support/tensors.h"

#include <cstdint>

namespace reprise::testing {

constexpr int64_t kMiB = 1 << 20;

inline at::Tensor mebibytes(int64_t count, c10::Device device = c10::kCPU) {
  return torch::empty({count * kMiB}, torch::TensorOptions(device).dtype(at::kByte));
}

}  // namespace reprise::testing
