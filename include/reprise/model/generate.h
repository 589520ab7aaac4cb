// Generation: continues prompts token by token, with a KV cache.
//
//   const auto results = reprise::generate(
//       *model, {prompt_ids}, {.sampling = {.temperature = 0.7}, .max_new_tokens = 64});
#pragma once

#include <reprise/export.h>
#include <reprise/model/model.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

/// How the next token is chosen. Filters are applied in the order of transformers: repetition
/// penalty, temperature, top-k, top-p, min-p.
struct SamplingOptions {
  double temperature = 0;         ///< 0: greedy
  int64_t top_k = 0;              ///< 0: off
  double top_p = 1;               ///< 1: off
  double min_p = 0;               ///< 0: off
  double repetition_penalty = 1;  ///< 1: off; applies to tokens of prompt and continuation
  uint64_t seed = 0;
};

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t max_new_tokens = 128;
  int64_t samples_per_prompt = 1;
  std::vector<int64_t> stop_ids;  ///< tokens that end a sequence; the token stays in the result
  /// A sequence ends when the text of its new tokens contains one of these. Needs `decode`.
  std::vector<std::string> stop_strings;
  std::function<std::string(const std::vector<int64_t>&)> decode = {};
  int64_t pad_id = 0;  ///< pads shorter prompts, on the left
  /// Called for every new token: (sequence, token).
  std::function<void(int64_t, int64_t)> on_token = {};
  AdapterUse adapters = AdapterUse::Trained;
  /// Index of the first prompt in its data set, so that several calls over parts of a data set draw
  /// the same random numbers as one call.
  int64_t first_prompt = 0;
  /// The same for prompts that are not consecutive: one index per prompt. Empty: first_prompt,
  /// first_prompt + 1, …
  std::vector<int64_t> prompt_numbers = {};
  /// Index of the first sample of each prompt, if its samples are drawn in several calls.
  int64_t first_sample = 0;
  /// Whether log-probabilities are those of logits / temperature, as online training needs them, or
  /// of the logits. Both are before repetition penalty, top-k, top-p and min-p. Has no effect if
  /// greedy.
  bool logprobs_at_temperature = false;
};

struct Generated {
  std::vector<int64_t> ids;     ///< new tokens only, including a stop token at the end
  std::vector<float> logprobs;  ///< of each token under the model; see logprobs_at_temperature
  bool is_finished = false;     ///< ended by a stop token or string, not by max_new_tokens
};

/// Continues every prompt `samples_per_prompt` times: result i * samples_per_prompt + j is sample j
/// of prompt i. Runs without gradients and in eval mode, and restores the model's mode. A result
/// depends on its prompt, the indices of prompt and sample, and the seed, but not on the other rows
/// of the batch, except for rounding in batched kernels. Needs a CausalLm head.
REPRISE_API std::vector<Generated> generate(Model& model,
                                            const std::vector<std::vector<int64_t>>& prompts,
                                            const GenerateOptions& options = {});

/// Applies the filters alone to logits (B, vocabulary), given the ids so far (-1: padding). Tokens
/// that are ruled out become -inf. Temperature 0 does not scale the logits.
REPRISE_API at::Tensor filter_logits(at::Tensor logits,
                                     const at::Tensor& seen_ids,
                                     const SamplingOptions& options);

}  // namespace reprise
