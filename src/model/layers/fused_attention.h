// Attention by the fused kernel that LibTorch chooses for a device, also while a step is planned:
// on the meta device LibTorch itself would choose the composite operator, with its T x T scores.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace reprise {

struct AttentionOptions {
  std::optional<at::Tensor> mask = {};
  double dropout = 0;
  bool is_causal = false;
  double scale = 1;
  bool enable_gqa = false;  ///< fewer heads of keys and values than of queries
};

/// at::scaled_dot_product_attention of q (B, heads, T, d), k and v (B, kv_heads, S, d).
at::Tensor fused_attention(const at::Tensor& q,
                           const at::Tensor& k,
                           const at::Tensor& v,
                           const AttentionOptions& options);

}  // namespace reprise
