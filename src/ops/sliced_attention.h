// Causal attention whose scores no fused kernel computes: with a soft cap, or with a bias by head.
//
// One operator each way (reprise::sliced_attention, reprise::sliced_attention_backward), which is
// what memory policies see. Both go over slices of queries, so that scores exist for one slice at a
// time and never as T x T. Sums over keys are taken slice by slice, in an order that depends on
// sizes and the device alone.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise::ops {

struct SlicedAttention {
  double scale = 1;          ///< of the products of queries and keys
  double softcap = 0;        ///< scores become softcap tanh(score / softcap); 0: they stay
  int64_t window = 0;        ///< how many keys a query sees, its own included; 0: all before it
  at::Tensor runs = {};      ///< (B, S) integers: a query sees keys of its own run; undefined: all
  at::Tensor key_bias = {};  ///< (B or 1, heads, S), added to scores (ALiBi); undefined: nothing is
  double dropout = 0;        ///< of the probabilities
};

/// q (B, heads, T, d); k and v (B, kv_heads, S, d), heads a multiple of kv_heads. The queries are
/// at the last T of S positions. Returns (B, heads, T, d), in memory (B, T, heads, d). Saved for
/// backward: q, k, v, the result, and one float32 number for each head of a query.
REPRISE_API at::Tensor sliced_attention(const at::Tensor& q,
                                        const at::Tensor& k,
                                        const at::Tensor& v,
                                        const SlicedAttention& options);

}  // namespace reprise::ops
