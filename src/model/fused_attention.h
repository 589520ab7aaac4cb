// Attention by the fused kernel that LibTorch takes for a device, also for one that is only planned
// for: on tensors without memory LibTorch itself would take the composite, T x T scores and all.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace reprise {

struct AttentionRules {
  std::optional<at::Tensor> mask = {};
  double dropout = 0;
  bool is_causal = false;
  double scale = 1;
  bool shares_heads = false;  ///< fewer heads of keys and values than of queries
};

/// at::scaled_dot_product_attention of q (B, heads, T, d), k and v (B, kv_heads, S, d).
at::Tensor fused_attention(const at::Tensor& q,
                           const at::Tensor& k,
                           const at::Tensor& v,
                           const AttentionRules& rules);

}  // namespace reprise
