// The experience of one generation batch: what the policy sampled, and everything that learning
// from it needs.
//
// It stays on the CPU; micro-batches of it go to the device. Token tensors are (N, C), where column
// 0 is the first token of each completion.
#pragma once

#include <reprise/data/batch.h>
#include <reprise/export.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/loss/targets.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace reprise {

struct REPRISE_API Experience {
  at::Tensor ids;             ///< (N, T) int64: prompt, completion, then padding
  at::Tensor prompt_lengths;  ///< (N) int64
  at::Tensor lengths;         ///< (N) int64: tokens of the completions, at least 1
  at::Tensor mask;            ///< (N, C) bool: tokens to learn from
  at::Tensor sampling_logprobs;
  at::Tensor old_logprobs;        ///< undefined: the policy has not changed since it sampled
  at::Tensor reference_logprobs;  ///< undefined without a reference
  at::Tensor values, returns;     ///< undefined without a critic
  at::Tensor advantages;          ///< (N) or (N, C)

  int64_t size() const { return ids.defined() ? ids.size(0) : 0; }
  double tokens() const;  ///< number of tokens under the mask

  /// The defined tensors under their names. load() restores them and throws if their shapes do not
  /// match.
  NamedTensors state() const;
  void load(const TensorFile& file);

  /// Permutes the rows.
  void reorder(const at::Tensor& order);
};

/// A micro-batch of experience on a device, cut to the length of its longest rows.
struct ExperienceBatch {
  TokenBatch tokens;
  Targets targets = at::Tensor();  ///< (B, T): see targets_of()
  at::Tensor starts;  ///< (B): the position that predicts the first token of the completion
  int64_t longest_completion = 0;  ///< tokens
  Experience part;                 ///< token tensors are cut to longest_completion

  /// Picks the columns of the completion tokens from (B, T) values: (B, longest_completion). Values
  /// after a completion's end are arbitrary.
  at::Tensor completion_values(const at::Tensor& values) const;
};

/// `count` rows from row `first` on, or as many as there are.
ExperienceBatch slice_experience(const Experience& experience,
                                 int64_t first,
                                 int64_t count,
                                 const at::Device& device);

/// One sampled completion; logprobs has an element for each of its tokens.
struct SampledSequence {
  std::vector<int64_t> prompt;
  std::vector<int64_t> completion;
  std::vector<float> logprobs;
};

/// Joins prompts and completions, and pads them.
Experience make_experience(const std::vector<SampledSequence>& rows, int64_t pad_id);

}  // namespace reprise
