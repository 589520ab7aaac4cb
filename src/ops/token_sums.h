// Log-probabilities and entropies of target tokens from logits in their own type
// (reprise::token_sums), and the gradient of the logits (reprise::token_slopes_). Losses use them
// where there is a kernel (has_cross_entropy_kernel), and ATen's operators elsewhere.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// One float32 number for each row.
struct RowSums {
  at::Tensor logprobs;   ///< log p(target)
  at::Tensor log_sums;   ///< log sum exp(scale * logits)
  at::Tensor entropies;  ///< undefined unless asked for
  at::Tensor hits;  ///< 1 where the target is the most probable token; of equal ones, the first
};

/// The sums of p = softmax(scale * logits), for logits (rows, V) and scale > 0.
REPRISE_API RowSums token_sums(const at::Tensor& logits,
                               const at::Tensor& targets,
                               double scale,
                               bool has_entropy);

/// Upstream gradients, float32 (rows). Undefined means zero; at least one must be defined.
struct TokenGradients {
  at::Tensor logprobs, entropies;
};

/// Overwrites the logits with the gradient of scale * logits. `entropies` may be undefined if their
/// gradient is.
REPRISE_API void token_slopes_(at::Tensor& logits,
                               const at::Tensor& targets,
                               const at::Tensor& log_sums,
                               const at::Tensor& entropies,
                               const TokenGradients& gradients,
                               double scale);

}  // namespace reprise::ops
