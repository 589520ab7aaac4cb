// A generation batch: what a policy sampled, and all that learning from it needs.
//
// It stays on the CPU; micro-batches of it go to the device. Tensors of tokens are (N, C): column 0
// is the first token of each completion.
#pragma once

#include <reprise/data/batch.h>
#include <reprise/export.h>
#include <reprise/io/safetensors.h>
#include <reprise/loss/targets.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace reprise {

struct REPRISE_API Experience {
  at::Tensor ids;             ///< (N, T) int64: prompt, completion, then padding
  at::Tensor prompt_lengths;  ///< (N) int64
  at::Tensor lengths;         ///< (N) int64, of the completions; at least 1
  at::Tensor mask;            ///< (N, C) bool: tokens that are learned from
  at::Tensor sampling_logprobs;
  at::Tensor old_logprobs;        ///< undefined: the policy has not changed since it sampled
  at::Tensor reference_logprobs;  ///< undefined unless a reference counts
  at::Tensor values, returns;     ///< undefined without a critic
  at::Tensor advantages;          ///< (N), or (N, C)

  int64_t size() const { return ids.defined() ? ids.size(0) : 0; }
  double tokens() const;  ///< under the mask

  /// What is defined, under its name. load() puts it back; throws if shapes do not fit together.
  NamedTensors state() const;
  void load(const SafetensorsFile& file);

  /// Rows in another order.
  void reorder(const at::Tensor& order);
};

/// Some rows, on a device, no wider than they need.
struct ExperienceRows {
  TokenBatch tokens;
  Targets targets = at::Tensor();  ///< (B, T): see targets_of()
  at::Tensor starts;       ///< (B): the position that predicts the first token of the completion
  int64_t completion = 0;  ///< the longest one's tokens
  Experience part;         ///< token tensors cut to `completion`

  /// What (B, T) values say of each completion token, (B, completion); anything behind its end.
  at::Tensor of_completions(const at::Tensor& values) const;
};

/// Rows first, first + 1, ... `count` of them, or what is left.
ExperienceRows rows_of(const Experience& experience,
                       int64_t first,
                       int64_t count,
                       const at::Device& device);

/// Prompts and completions put together, row by row; log-probabilities as long as completions.
struct SampledRow {
  std::vector<int64_t> prompt;
  std::vector<int64_t> completion;
  std::vector<float> logprobs;
};
Experience experience_of(const std::vector<SampledRow>& rows, int64_t pad_id);

}  // namespace reprise
