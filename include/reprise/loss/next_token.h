// The loss of language modelling, and the log-probabilities that other objectives are made of.
#pragma once

#include <reprise/data/example.h>
#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise {

/// Mean cross entropy of predicting labels[:, t + 1] from logits[:, t], in float32: what
/// transformers' models return. logits (B, T, V), labels (B, T).
REPRISE_API at::Tensor next_token_loss(const at::Tensor& logits, const at::Tensor& labels);

/// log p(ids[:, t + 1] | ids[:, 0..t]) in float32, (B, T - 1). logits (B, T, V), ids (B, T).
REPRISE_API at::Tensor token_logprobs(const at::Tensor& logits, const at::Tensor& ids);

}  // namespace reprise
