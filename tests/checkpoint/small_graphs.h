// What the graphs of these tests are made of: leaves with the same numbers in every run, and a
// chain of operators.
#pragma once

#include "support/tensors.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>

namespace reprise::testing {

inline at::Tensor float_leaf(at::IntArrayRef sizes,
                             uint64_t seed = 4,
                             c10::DeviceType device = c10::kCPU) {
  auto generator = at::detail::createCPUGenerator(seed);
  return torch::randn(sizes, generator, torch::kFloat).to(device).set_requires_grad(true);
}

/// Precise enough for second derivatives and numeric gradients.
inline at::Tensor double_leaf(at::IntArrayRef sizes, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return torch::randn(sizes, generator, torch::kDouble).set_requires_grad(true);
}

/// From -1 to 1 in even steps.
inline at::Tensor ramp_leaf(at::IntArrayRef sizes, c10::DeviceType device = c10::kCPU) {
  auto leaf = torch::empty(sizes, torch::TensorOptions(device));
  leaf.view({-1}).copy_(torch::linspace(-1, 1, leaf.numel(), leaf.options()));
  return leaf.set_requires_grad(true);
}

/// `depth` layers, of each of which autograd saves one result.
inline Fn deep(int depth) {
  return [depth](at::Tensor x) {
    for (int i = 0; i < depth; ++i) {
      x = torch::tanh(x);
    }
    return x;
  };
}

}  // namespace reprise::testing
