// Rotary position embedding.
#pragma once

#include <reprise/model/config.h>

#include <ATen/core/Tensor.h>

namespace reprise {

/// cos and sin of every position in float32, (B or 1, 1, T, dims / 2). Undefined without rotary
/// embedding.
struct RopeTables {
  at::Tensor cos, sin;
};

/// `positions` (B or 1, T). Computed once per forward pass and shared by all blocks.
RopeTables rope_tables(const RopeConfig& config, const at::Tensor& positions);

/// Rotates the leading dimensions of x (B, heads, T, head_dim). The result has the type of x.
at::Tensor apply_rope(const RopeConfig& config,
                      const at::Tensor& x,
                      const at::Tensor& cos,
                      const at::Tensor& sin);

}  // namespace reprise
