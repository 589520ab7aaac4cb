// Functions that read and write buffers beside what they compute.
#pragma once

#include "law/law.h"

namespace reprise::testing {

/// Adds a detached value.
inline void bump(const at::Tensor& buffer, const at::Tensor& value) {
  const torch::NoGradGuard no_grad;
  buffer.add_(value.detach());
}

/// Runs `outer` as a region over a leaf, and returns the gradient.
template <class Outer>
Seen gradient_through(const Way& way, const Outer& outer) {
  const auto x = leaf({4});
  way(outer, x).sum().backward();
  return {x.grad()};
}

/// Reads a buffer, then writes it.
inline at::Tensor read_and_bump(const at::Tensor& h, const at::Tensor& buffer) {
  const auto next = (h * (buffer.clone() + 1)).tanh();
  bump(buffer, next);
  return next;
}

}  // namespace reprise::testing
