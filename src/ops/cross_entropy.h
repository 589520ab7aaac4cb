// Cross entropy and its gradient from logits in their own type, in one pass over memory
// (reprise::cross_entropy_). Losses use it where there is a kernel, and ATen's operators elsewhere.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// One float32 number for each row.
struct RowLosses {
  at::Tensor losses;  ///< -w log p(target)
  at::Tensor entropies;
  at::Tensor hits;  ///< 1 where the target is the most probable token; of equal ones, the first
};

/// Whether there is a kernel for these logits.
REPRISE_API bool has_cross_entropy_kernel(const at::Tensor& logits);

/// Overwrites the logits (rows, V) with their gradient w (p - onehot); w is 1 or, if `weighted`,
/// p(target).
REPRISE_API RowLosses cross_entropy_(at::Tensor& logits, const at::Tensor& targets, bool weighted);

}  // namespace reprise::ops
