// Rotary position embedding.
#pragma once

#include <reprise/model/config.h>

#include <ATen/core/Tensor.h>

namespace reprise {

/// cos and sin for every position, in float32: (B or 1, 1, T, dims / 2). Undefined without rotary
/// embedding.
struct RopeTables {
  at::Tensor cos, sin;
};

/// `positions` (B or 1, T). Computed once a pass and shared by all blocks.
RopeTables rope_tables(const RopeConfig& config, const at::Tensor& positions);

/// Turns the leading dims of x (B, heads, T, head_dim). Same dtype out as in.
at::Tensor apply_rope(const RopeConfig& config,
                      const at::Tensor& x,
                      const at::Tensor& cos,
                      const at::Tensor& sin);

}  // namespace reprise
