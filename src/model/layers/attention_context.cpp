#include "model/layers/attention_context.h"

#include "memory/planned_device.h"
#include "model/layers/document_attention.h"
#include "model/layers/rope.h"

#include <c10/util/Exception.h>

namespace reprise {

namespace {

// Whether attention can follow document_starts instead of a mask.
bool goes_by_documents(const ModelConfig& config,
                       const ModelInput& input,
                       const AttentionState& state) {
  if (!input.document_starts.defined()) {
    return false;
  }
  const auto device = memory::kernel_type(input.input_ids.device());
  return serves_documents(config,
                          {.device = device,
                           .type = attention_type(state.dtype, device),
                           .head_dim = config.head_dim,
                           .dropout = state.dropout,
                           .has_cache = state.has_cache});
}

// Rotary positions have no end; learned ones do. Rows of several documents may be longer: each
// document has its own positions.
void check_length(const ModelConfig& config,
                  const ModelInput& input,
                  const AttentionState& state,
                  const at::Tensor& positions) {
  int64_t length = state.past + input.input_ids.size(1);
  const bool counts_anew = input.position_ids.defined() || input.document_ids.defined();
  if (state.has_learned_positions && length > config.max_positions && counts_anew &&
      !positions.is_meta()) {
    length = positions.max().item<int64_t>() + 1;
  }
  TORCH_CHECK(!state.has_learned_positions || length <= config.max_positions,
              "[model] a sequence of ",
              length,
              " tokens: this model has learned ",
              config.max_positions,
              " positions.");
}

}  // namespace

AttentionContexts prepare_attention(const ModelConfig& config,
                                    const ModelInput& input,
                                    const AttentionState& state) {
  const auto masks =
      attention_masks(input, state.past, config.windows, goes_by_documents(config, input, state));
  AttentionContexts contexts;
  contexts.positions = positions_of(input, state.past);
  check_length(config, input, state, contexts.positions);
  const RopeTables rope = rope_tables(config.rope, contexts.positions);
  contexts.by_block.reserve(config.windows.size());
  for (const int64_t window : config.windows) {
    contexts.by_block.push_back({rope.cos, rope.sin, masks.at(window)});
  }
  return contexts;
}

}  // namespace reprise
