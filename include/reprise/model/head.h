// A language-model head as a matrix, for losses that compute logits in chunks.
#pragma once

#include <ATen/core/Tensor.h>

namespace reprise {

/// logits = hidden W^T + b.
struct LinearHead {
  at::Tensor weight;        ///< (V, H)
  at::Tensor bias = {};     ///< (V); undefined: none
  bool in_float32 = false;  ///< compute logits in float32, whatever the types and autocast
};

}  // namespace reprise
