// A linear layer whose adapter has a magnitude: Note [DoRA].
#pragma once

#include "model/lora/lora_branch.h"

#include <ATen/core/Tensor.h>

#include <functional>

namespace reprise {

/// The layer without its adapter, and what the adapter makes of its rows.
struct DoraBase {
  at::Tensor factors;  ///< (out): LoraBranch::row_factors() of its weight
  at::Tensor bias;     ///< undefined: none
  /// x (..., in) times the weight, plus a bias that may be undefined.
  std::function<at::Tensor(const at::Tensor& x, const at::Tensor& bias)> product;
};

/// The layer's output in the type that it has without adapter: x (..., in) -> (..., out).
/// `training`: with dropout.
at::Tensor dora_linear(const LoraBranch& branch,
                       const at::Tensor& x,
                       const DoraBase& base,
                       bool training);

}  // namespace reprise
