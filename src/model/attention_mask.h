// Who sees whom: causality, padding, packed documents and sliding windows as one mask, or as none
// where plain causality is all there is, or where attention goes by the bounds of documents.
#pragma once

#include "model/document_attention.h"

#include <reprise/model/model.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

namespace reprise {

/// What attention is told: scaled_dot_product_attention, or document_attention if it has runs.
struct AttentionMask {
  at::Tensor allowed;      ///< bool (B or 1, 1, T, S); undefined: no mask
  bool is_causal = false;  ///< with no mask: position i sees 0..i (else it sees everything)
  DocumentRuns documents = {};
};

/// Positions of every token: input.position_ids, or counted up from `past`, within documents.
at::Tensor positions_of(const ModelInput& input, int64_t past);

/// One mask for each different window among the layers of a model; `past` positions precede the
/// input's. Checks the shapes of the input. `goes_by_runs`: document_attention serves, so that an
/// input with document_starts needs no mask.
REPRISE_API std::map<int64_t, AttentionMask> attention_masks(const ModelInput& input,
                                                             int64_t past,
                                                             const std::vector<int64_t>& windows,
                                                             bool goes_by_runs = false);

}  // namespace reprise
