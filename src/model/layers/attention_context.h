// What attention needs besides its input: rotary tables and masks, computed once per forward pass
// and shared by all blocks.
#pragma once

#include "model/layers/attention_mask.h"

#include <reprise/model/config.h>
#include <reprise/model/model.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace reprise {

/// The context of one block. It is an argument of the block's checkpointed region.
struct AttentionContext {
  at::Tensor cos, sin;  ///< rotary tables; undefined without rotary embedding
  AttentionMask mask;
  at::Tensor query_scale;  ///< (B or 1, 1, T, 1) float32, of queries; undefined: none
  at::Tensor key_bias;     ///< (B or 1, heads, S), ALiBi; undefined: none

  template <class Visit>
  void for_each_tensor(Visit&& visit) {
    visit(cos);
    visit(sin);
    visit(mask.allowed);
    visit(mask.documents.starts);
    visit(mask.runs);
    visit(query_scale);
    visit(key_bias);
  }
};

struct AttentionContexts {
  at::Tensor positions;                    ///< of every token, (B or 1, T)
  std::vector<AttentionContext> by_block;  ///< one for each block
};

/// The state of the model and of the KV cache at the beginning of a pass.
struct AttentionState {
  at::ScalarType dtype = at::kFloat;  ///< of the model's parameters
  double dropout = 0;                 ///< of attention, in this pass
  bool has_learned_positions = false;
  bool has_cache = false;  ///< keys and values go through a KV cache
  int64_t past = 0;        ///< positions that the cache already has
};

/// Checks the input's shapes and prepares masks, positions and rotary tables.
AttentionContexts prepare_attention(const ModelConfig& config,
                                    const ModelInput& input,
                                    const AttentionState& state);

}  // namespace reprise
