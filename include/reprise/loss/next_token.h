// The loss of language modelling on whole logits. Training computes it without them: loss/head.h.
#pragma once

#include <reprise/data/example.h>
#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise {

/// Mean cross entropy of predicting labels[:, t + 1] from logits[:, t], in float32: what
/// transformers' models return. logits (B, T, V), labels (B, T).
REPRISE_API at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace reprise
