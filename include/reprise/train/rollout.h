// Rollout, the generation phase of online training: many prompts, several samples of each, in
// batches of like length. No gradients, no graph, no checkpointed region (that is checked).
#pragma once

#include <reprise/export.h>
#include <reprise/model/generate.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace reprise {

struct RolloutOptions {
  GenerateOptions generate = {};  ///< with prompt_numbers: which random numbers each prompt gets
  int64_t batch_size = 32;        ///< sequences that are generated together
  /// The most that the KV cache of a batch may take, however few sequences that leaves (but one);
  /// 0: batch_size decides alone.
  int64_t cache_bytes = 0;
  /// Called after every batch with the number of sequences that are done, and of all.
  std::function<void(int64_t done, int64_t total)> progress = {};
};

/// generate() for any number of prompts: sorted by length, so that little is padded, cut into
/// batches, and put back into their order. Result i * samples + j is sample j of prompt i, and does
/// not depend on how the batches were cut (beyond the rounding of batched kernels). Batches share
/// nothing: each frees its KV cache before the next begins.
REPRISE_API std::vector<Generated> rollout(Model& model,
                                           const std::vector<std::vector<int64_t>>& prompts,
                                           const RolloutOptions& options = {});

}  // namespace reprise
