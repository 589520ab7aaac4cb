// Cross entropy and its gradient over logits in their own type, in one pass
// (reprise::cross_entropy_). Only where a kernel serves; elsewhere losses take ATen's operators.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// Each (rows), float32.
struct RowLosses {
  at::Tensor losses;  ///< -w log p(target)
  at::Tensor entropies;
  at::Tensor hits;  ///< 1 where the target is the most probable (of equals, the first)
};

/// Whether there is a kernel for these logits.
REPRISE_API bool has_cross_entropy_kernel(const at::Tensor& logits);

/// Writes w (p - onehot) over the logits (rows, V), w being 1 or, if weighted, p(target).
REPRISE_API RowLosses cross_entropy_(at::Tensor& logits, const at::Tensor& targets, bool weighted);

}  // namespace reprise::ops
