// A language-model head as losses take it: they never hold all logits, so they need the matrix.
#pragma once

#include <ATen/core/Tensor.h>

namespace reprise {

/// logits = hidden W^T + b.
struct LinearHead {
  at::Tensor weight;        ///< (V, H)
  at::Tensor bias = {};     ///< (V); undefined: none
  bool in_float32 = false;  ///< logits are computed in float32 whatever the types (and autocast)
};

}  // namespace reprise
