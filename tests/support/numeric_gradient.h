// Gradients by central differences: no autograd on that side of a comparison.
#pragma once

#include "support/tensors.h"

#include <functional>
#include <vector>

namespace reprise::testing {

/// Of a scalar function, element by element. x is float64.
inline at::Tensor numeric_gradient(const std::function<at::Tensor(at::Tensor)>& fn,
                                   const at::Tensor& x) {
  constexpr double kStep = 1e-5;
  std::vector<double> slopes;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const auto value_at = [&](double offset) {
      auto moved = x.detach().clone();
      moved.view({-1})[i] += offset;
      return fn(moved).item<double>();
    };
    slopes.push_back((value_at(kStep) - value_at(-kStep)) / (2 * kStep));
  }
  return torch::tensor(slopes, torch::kDouble).view(x.sizes());
}

}  // namespace reprise::testing
