// Queries, keys and values of a block, turned to their positions: projection and rotary embedding
// as one operator (reprise::qkv_rope).
//
// Note [Turned where they lie]
// The product is the operator's own until it returns, so queries and keys are turned in place and
// nothing is held twice. As an operator of its own, an embedding in place would change a product
// that a policy may have kept, and one that copies would keep both alive as long as the values,
// which are not turned.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise::ops {

struct HeadLayout {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t turned = 0;        ///< leading dimensions of a head that turn
  bool interleaved = false;  ///< dimension 2i turns with 2i + 1; otherwise i with i + turned / 2
};

/// (B, heads or kv_heads, T, head_dim), strided.
struct Heads {
  at::Tensor query, key, value;
};

/// x (B, T, in); weight (out, in) with the queries' rows first, then keys' and values'; bias (out)
/// or undefined; added (B, T, out), what adapters add to the product, or undefined; cos and sin
/// float32 (B or 1, 1, T, turned / 2). Kept for backward: the weight, the tables,
/// and x if the weight is trained.
REPRISE_API Heads qkv_rope(const at::Tensor& x,
                           const at::Tensor& weight,
                           const at::Tensor& bias,
                           const at::Tensor& added,
                           const at::Tensor& cos,
                           const at::Tensor& sin,
                           const HeadLayout& layout);

}  // namespace reprise::ops
