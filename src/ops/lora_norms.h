// The norm of each row of a weight with its low-rank update (reprise::lora_norms), for DoRA.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

namespace reprise::ops {

/// The 2-norms of the rows of weight + scale * b a, at least in float32 and never zero: weight
/// (out, in), a (rank, in), b (out, rank) -> (out). No gradient flows through it, and it saves
/// nothing: the sum is made a few rows at a time.
REPRISE_API at::Tensor lora_norms(const at::Tensor& weight,
                                  const at::Tensor& a,
                                  const at::Tensor& b,
                                  double scale);

}  // namespace reprise::ops
