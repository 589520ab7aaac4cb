// Which tokens attend to which: causality, padding, packed documents and sliding windows as one
// mask. There is no mask where attention is just causal, or follows the bounds of documents.
#pragma once

#include "model/layers/document_attention.h"

#include <reprise/model/model.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

namespace reprise {

/// Arguments for scaled_dot_product_attention, or for document_attention if `documents` is set.
struct AttentionMask {
  at::Tensor allowed;      ///< bool (B or 1, 1, T, S); undefined: no mask
  bool is_causal = false;  ///< without a mask: position i attends to 0..i, otherwise to all
  DocumentRuns documents = {};
  // For ops::sliced_attention, instead of all of them.
  at::Tensor runs = {};  ///< (B, S) integers; undefined: every token is of one run
  int64_t window = 0;
};

/// The position of every token: input.position_ids, or counted from `past`, in each document from
/// 0. `skips_padding`: counted as attended_positions() does.
REPRISE_API at::Tensor positions_of(const ModelInput& input,
                                    int64_t past,
                                    bool skips_padding = false);
/// How many attended tokens of its document precede each token, (B or 1, past + T); -1 for padding.
REPRISE_API at::Tensor attended_positions(const ModelInput& input, int64_t past);

/// One mask for each different window among the layers of a model; `past` positions precede the
/// input. Checks the shapes of the input. `goes_by_runs`: document_attention serves, so that an
/// input with document_starts needs no mask.
REPRISE_API std::map<int64_t, AttentionMask> attention_masks(const ModelInput& input,
                                                             int64_t past,
                                                             const std::vector<int64_t>& windows,
                                                             bool goes_by_runs = false);
/// The same for ops::sliced_attention, which needs no mask of T x S.
std::map<int64_t, AttentionMask> sliced_masks(const ModelInput& input,
                                              int64_t past,
                                              const std::vector<int64_t>& windows);

}  // namespace reprise
