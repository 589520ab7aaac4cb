// A language-model head as a matrix, for losses that compute logits in chunks.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise {

/// What becomes of the products of hidden states and the head, before anything reads them as
/// logits.
struct LogitShape {
  double scale = 1;    ///< a factor (Granite, Cohere)
  double softcap = 0;  ///< then softcap tanh(logit / softcap) (Gemma 2); 0: they stay

  bool is_plain() const { return scale == 1 && softcap == 0; }
};

/// logits = shape(hidden W^T + b).
struct LinearHead {
  at::Tensor weight;        ///< (V, H)
  at::Tensor bias = {};     ///< (V); undefined: none
  bool in_float32 = false;  ///< compute logits in float32, whatever the types and autocast
  LogitShape shape = {};
};

/// The logits of products, in their type: computed in the wide type and rounded once.
REPRISE_API at::Tensor shaped_logits(const at::Tensor& products, const LogitShape& shape);

}  // namespace reprise
