// The language-modelling loss on full logits. Training avoids the logits: see loss/head.h.
#pragma once

#include <reprise/data/example.h>
#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise {

/// Mean cross entropy of predicting labels[:, t + 1] from logits[:, t], in float32, as the models
/// of transformers return it. logits (B, T, V), labels (B, T) int64 with kIgnoredLabel.
REPRISE_API at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace reprise
