// Queries, keys and values of a block: the QKV projection and the rotary embedding as one operator
// (reprise::qkv_rope).
//
// Note [Rotated in place]
// Until it returns, the operator alone has the product, so it rotates queries and keys in place and
// holds nothing twice. A separate in-place operator would change a product that a policy may have
// saved, and a copying one would keep the product alive beside the rotated heads for as long as the
// values, which are views of it.
#pragma once

#include "ops/linear/adapters.h"
#include "ops/linear/weight.h"

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise::ops {

struct HeadLayout {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t rotary_dims = 0;   ///< leading dimensions of a head that are rotated
  bool interleaved = false;  ///< pairs (2i, 2i + 1); otherwise (i, i + rotary_dims / 2)
};

/// (B, heads or kv_heads, T, head_dim), strided.
struct Heads {
  at::Tensor query, key, value;
};

/// x (B, T, in); weight (out, in), the rows of the queries first, then of keys and values; bias
/// (out) or undefined; LoRA adapters, perhaps none; cos and sin float32 (B or 1, 1, T,
/// rotary_dims / 2). Saved for backward: the weight, the adapters, the tables, and x if the weight
/// or an adapter is trained.
REPRISE_API Heads qkv_rope(const at::Tensor& x,
                           const Weight& weight,
                           const at::Tensor& bias,
                           const Adapters& adapters,
                           const at::Tensor& cos,
                           const at::Tensor& sin,
                           const HeadLayout& layout);

}  // namespace reprise::ops
