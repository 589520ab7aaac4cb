// The batches that errors in bfloat16 are averaged over: the fixture's own with other ids, as
// `shifted` in tests/fixtures/model_oracle.py makes them.
#pragma once

#include "support/parity.h"
#include "support/tensors.h"

#include <reprise/loss/next_token.h>
#include <reprise/model/model.h>

#include <cstdint>

namespace reprise::testing {

inline constexpr int64_t kRoundingBatches = 32;

struct Batch {
  ModelInput input;
  at::Tensor labels;
};

/// Batch number `step`; 0 is the fixture's own.
inline Batch shifted_batch(const Expected& expected, int64_t vocabulary, int64_t step) {
  constexpr int64_t kFirstPlainId = 3;
  const auto move = [&](const at::Tensor& ids) {
    const auto moved =
        kFirstPlainId + (ids - kFirstPlainId + 5 * step).remainder(vocabulary - kFirstPlainId);
    return torch::where(ids >= kFirstPlainId, moved, ids);
  };
  Batch batch;
  const auto ids = expected["input_ids"], labels = expected["labels"];
  batch.input.input_ids = move(ids);
  batch.input.attention_mask = expected["attention_mask"];
  const bool labels_are_ids =
      labels.dim() == 2 && ((labels == ids) | (labels == kIgnoredLabel)).all().item<bool>();
  batch.labels = labels_are_ids ? move(labels) : labels;
  return batch;
}

}  // namespace reprise::testing
