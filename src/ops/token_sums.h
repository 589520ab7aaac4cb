// What log-probabilities of targets need of logits in their own type: the sums of a row
// (reprise::token_sums), and in backward its gradient (reprise::token_slopes_). Only where a kernel
// serves (has_cross_entropy_kernel); elsewhere losses take ATen's operators.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// Each (rows), float32.
struct RowSums {
  at::Tensor logprobs;   ///< log p(target)
  at::Tensor log_sums;   ///< log sum exp(scale * logits)
  at::Tensor entropies;  ///< undefined unless asked for
  at::Tensor hits;       ///< 1 where the target is the most probable (of equals, the first)
};

/// Of p = softmax(scale * logits), logits (rows, V) and scale > 0.
REPRISE_API RowSums token_sums(const at::Tensor& logits,
                               const at::Tensor& targets,
                               double scale,
                               bool has_entropy);

/// Upstream gradients (rows), float32; undefined: zero, but not both.
struct TokenGradients {
  at::Tensor logprobs, entropies;
};

/// Over the logits writes d / d(scale * logits) of what the gradients weigh. Entropies may be
/// undefined if their gradient is.
REPRISE_API void token_slopes_(at::Tensor& logits,
                               const at::Tensor& targets,
                               const at::Tensor& log_sums,
                               const at::Tensor& entropies,
                               const TokenGradients& gradients,
                               double scale);

}  // namespace reprise::ops
