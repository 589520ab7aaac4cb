// Cross entropy of a chunk of tokens, with what it says to their logits.
#pragma once

#include "loss/head_chunks.h"
#include "ops/cross_entropy.h"

#include <reprise/loss/head.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise {

/// One number for each token that counts, so that sums do not depend on the chunks.
struct TokenSums {
  at::Tensor losses, entropies, hits;

  static TokenSums room_for(const at::Tensor& rows, const HeadPlan& plan);
  TokenSums chunk(int64_t start, int64_t count) const;
  void copy(const ops::RowLosses& rows) const;
};

/// Fills a chunk of sums from logits (n, V), which become log-probabilities, and returns their
/// gradient (n, V) in `slopes`. `products` is overwritten, and may be the logits where their
/// log-probabilities are not needed any more.
at::Tensor cross_entropy_of(const TokenSums& chunk,
                            at::Tensor logits,
                            const at::Tensor& targets,
                            TokenWeighting weighting,
                            at::Tensor slopes,
                            at::Tensor products);

}  // namespace reprise
