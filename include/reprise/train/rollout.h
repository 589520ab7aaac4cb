// Rollout, the generation phase of online training: several samples for each of many prompts. Runs
// without gradients and without checkpointed regions (which is checked).
#pragma once

#include <reprise/export.h>
#include <reprise/model/generate.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace reprise {

struct RolloutOptions {
  /// Sampling, length limit and samples_per_prompt. prompt_numbers, if given, select the random
  /// numbers of each prompt.
  GenerateOptions generate = {};
  int64_t batch_size = 32;  ///< sequences generated at the same time
  /// Upper limit for the bytes of a batch's KV cache. Batches get smaller to stay below it, down to
  /// one sequence. 0: no limit.
  int64_t cache_bytes = 0;
  /// Called after every batch, with the sequences generated so far and in total.
  std::function<void(int64_t done, int64_t total)> progress = {};
};

/// generate() for any number of prompts. Sorts them by length to avoid padding, generates in
/// batches, and returns the results in the order of the prompts: result i * samples + j is sample j
/// of prompt i. Results do not depend on the batches, apart from rounding in batched kernels. Each
/// batch frees its KV cache before the next one starts.
REPRISE_API std::vector<Generated> rollout(Model& model,
                                           const std::vector<std::vector<int64_t>>& prompts,
                                           const RolloutOptions& options = {});

}  // namespace reprise
