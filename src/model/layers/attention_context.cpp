#include "model/layers/attention_context.h"

#include "memory/planned_device.h"
#include "model/layers/alibi.h"
#include "model/layers/document_attention.h"
#include "model/layers/rope.h"

#include <reprise/model/attention_kernels.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

namespace reprise {

namespace {

// Whether attention can follow document_starts instead of a mask.
bool goes_by_documents(const ModelConfig& config,
                       const ModelInput& input,
                       const AttentionState& state) {
  if (!input.document_starts.defined() || has_shaped_scores(config)) {
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
  const bool counts_anew = input.position_ids.defined() || input.document_ids.defined() ||
                           (config.positions_skip_padding && input.attention_mask.defined());
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

// The tables of each layer, computed once for all layers that rotate alike.
std::vector<RopeTables> tables_of(const ModelConfig& config, const at::Tensor& positions) {
  std::vector<RopeTables> tables;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const RopeConfig& rope = config.rope_of(layer);
    int64_t first = 0;
    while (first < layer && !(config.rope_of(first) == rope)) {
      ++first;
    }
    tables.push_back(first < layer ? tables[static_cast<size_t>(first)]
                                   : rope_tables(rope, positions));
  }
  return tables;
}

at::Tensor query_scale_of(const QueryGrowth& queries, const at::Tensor& positions) {
  if (queries.growth == 0) {
    return {};
  }
  const auto periods = at::floor(positions.to(at::kFloat) / queries.period);
  return (periods.log1p() * queries.growth + 1).unsqueeze(1).unsqueeze(-1);
}

}  // namespace

AttentionContexts prepare_attention(const ModelConfig& config,
                                    const ModelInput& input,
                                    const AttentionState& state) {
  const auto masks =
      has_shaped_scores(config)
          ? sliced_masks(input, state.past, config.windows)
          : attention_masks(
                input, state.past, config.windows, goes_by_documents(config, input, state));
  AttentionContexts contexts;
  contexts.positions = positions_of(input, state.past, config.positions_skip_padding);
  check_length(config, input, state, contexts.positions);
  const at::NoGradGuard no_grad;
  const auto ropes = tables_of(config, contexts.positions);
  const auto query_scale = query_scale_of(config.query_growth, contexts.positions);
  const auto key_bias = config.alibi
                            ? alibi_bias(config, attended_positions(input, state.past), state.dtype)
                            : at::Tensor();
  contexts.by_block.reserve(config.windows.size());
  for (size_t layer = 0; layer < config.windows.size(); ++layer) {
    contexts.by_block.push_back({.cos = ropes[layer].cos,
                                 .sin = ropes[layer].sin,
                                 .mask = masks.at(config.windows[layer]),
                                 .query_scale = query_scale,
                                 .key_bias = key_bias});
  }
  return contexts;
}

}  // namespace reprise
