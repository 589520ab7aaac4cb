// Attention within documents of packed rows, without a mask: flash attention takes the bounds of
// the documents (cu_seqlens), so that nothing of the size T x T is allocated. It serves 16-bit
// types on a GPU; elsewhere the masks of attention_mask.h do the same.
#pragma once

#include <reprise/export.h>
#include <reprise/model/config.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

namespace reprise {

/// Which tokens attend to which, as bounds: a token attends to itself and the tokens before it in
/// its run, or with a window to the last of them.
struct DocumentRuns {
  at::Tensor starts;    ///< ModelInput::document_starts; undefined: there is a mask instead
  int64_t longest = 0;  ///< tokens of the longest run
  int64_t window = 0;   ///< how many positions a token attends to, itself included; 0: all
};

/// What decides whether the kernel serves.
struct DocumentFacts {
  c10::DeviceType device = c10::kCPU;
  at::ScalarType type = at::kFloat;  ///< type that attention computes in
  int64_t head_dim = 0;
  double dropout = 0;      ///< of attention, in this pass
  bool has_cache = false;  ///< keys and values go through a KV cache
};
/// Whether flash attention serves, on a GPU and with a LibTorch that have it.
REPRISE_API bool fits_documents(const DocumentFacts& facts);
/// Whether it serves with this GPU and this LibTorch.
bool serves_documents(const ModelConfig& config, const DocumentFacts& facts);

/// The type that attention computes in for activations of `type`: autocast's where it is on.
at::ScalarType attention_type(at::ScalarType type, c10::DeviceType device);

/// q (B, heads, T, head_dim), k and v (B, kv_heads, T, head_dim) -> (B, T, heads, head_dim).
/// Saved for backward: q, k, v, the result, and one float32 number per head of a token.
at::Tensor document_attention(const at::Tensor& q,
                              const at::Tensor& k,
                              const at::Tensor& v,
                              const DocumentRuns& runs,
                              double scale);

}  // namespace reprise
