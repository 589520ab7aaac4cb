// Cross entropy of a chunk of tokens, with the gradients of their logits.
#pragma once

#include "loss/head/head_chunks.h"
#include "ops/cross_entropy.h"

#include <reprise/loss/head.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise {

/// One number per valid token, so that sums do not depend on the chunks.
struct TokenSums {
  at::Tensor losses, entropies, hits;

  static TokenSums allocate(const at::Tensor& rows, const HeadPlan& plan);
  TokenSums chunk(int64_t start, int64_t count) const;
  void copy(const ops::RowLosses& rows) const;
};

/// Fills `chunk` from logits (n, V), which become log-probabilities, and writes their gradient (n,
/// V) to `grad_logits`, which is returned. `products` is overwritten; it may be the logits if their
/// log-probabilities are not needed any more.
at::Tensor cross_entropy_of(const TokenSums& chunk,
                            at::Tensor logits,
                            const at::Tensor& targets,
                            TokenWeighting weighting,
                            at::Tensor grad_logits,
                            at::Tensor products);

}  // namespace reprise
