// Gradients by central differences: no autograd on that side of a comparison.
#pragma once

#include "support/tensors.h"

#include <gtest/gtest.h>

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

using Inputs = std::vector<at::Tensor>;
using Function = std::function<at::Tensor(const Inputs&)>;

/// Compares autograd's gradients of a weighted sum of the results, so that every element has a
/// gradient of its own. Inputs are float64.
inline void expect_numeric_gradients(const Function& function, const Inputs& inputs) {
  const auto weights = torch::randn_like(function(inputs));
  const auto value = [&](const Inputs& at) { return (function(at) * weights).sum(); };
  Inputs leaves;
  for (const auto& input : inputs) {
    leaves.push_back(input.detach().clone().requires_grad_());
  }
  const auto found = torch::autograd::grad({value(leaves)}, leaves);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto expected = numeric_gradient(
        [&](const at::Tensor& moved) {
          Inputs at = inputs;
          at[i] = moved;
          return value(at);
        },
        inputs[i]);
    EXPECT_TRUE(at::allclose(found[i], expected, 1e-6, 1e-7)) << "input " << i;
  }
}

}  // namespace reprise::testing
