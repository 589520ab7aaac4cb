// A linear layer whose adapter has a magnitude: Note [DoRA].
#pragma once

#include "model/layers/linear.h"

#include <ATen/core/Tensor.h>

namespace reprise {

/// The layer's output in the type that it has without adapter: x (..., in) -> (..., out). `base`:
/// its weight (out, in) and bias. `training`: with dropout.
at::Tensor dora_linear(const LoraBranch& branch,
                       const at::Tensor& x,
                       const WeightAndBias::Values& base,
                       Precision precision,
                       bool training);

}  // namespace reprise
