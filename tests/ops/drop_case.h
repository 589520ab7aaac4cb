// Seeds of dropout in tests.
#pragma once

#include "support/tensors.h"

#include <cstdint>

namespace reprise::testing {

inline constexpr double kDropout = 0.3;

inline at::Tensor seed_of(int64_t number) {
  return torch::full({1}, number, torch::kLong);
}

}  // namespace reprise::testing
