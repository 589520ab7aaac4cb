// Attention within runs of tokens, without a mask: flash attention takes the runs' bounds, so that
// nothing of the size T x T is made. It serves 16-bit types on a GPU; where it cannot, the masks of
// attention_mask.h say the same.
#pragma once

#include <reprise/export.h>
#include <reprise/model/config.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

namespace reprise {

/// Who sees whom, as bounds: tokens of a run see those of it that are not behind them, and with a
/// window only the last ones.
struct DocumentRuns {
  at::Tensor starts;    ///< ModelInput::document_starts; undefined: a mask says it
  int64_t longest = 0;  ///< tokens of the longest run
  int64_t window = 0;   ///< how many positions a token sees, itself included; 0: all
};

/// What decides whether the kernel serves.
struct DocumentFacts {
  c10::DeviceType device = c10::kCPU;
  at::ScalarType type = at::kFloat;  ///< that attention computes in
  int64_t head_dim = 0;
  double dropout = 0;      ///< of this pass
  bool has_cache = false;  ///< keys and values go through a KV cache
};
/// Whether flash attention can serve at all, given a GPU and a LibTorch that have it.
REPRISE_API bool fits_documents(const DocumentFacts& facts);
/// The same with the GPU and LibTorch as they are.
bool serves_documents(const ModelConfig& config, const DocumentFacts& facts);

/// The type that attention computes in when activations have `type`: autocast's, where it is on.
at::ScalarType attention_type(at::ScalarType type, c10::DeviceType device);

/// q (B, heads, T, head_dim), k and v (B, kv_heads, T, head_dim) -> (B, T, heads, head_dim).
/// Kept for backward: q, k, v, the result, one float32 number for each head of a token.
at::Tensor document_attention(const at::Tensor& q,
                              const at::Tensor& k,
                              const at::Tensor& v,
                              const DocumentRuns& runs,
                              double scale);

}  // namespace reprise
