// Generation: continue prompts token by token, with a static KV cache.
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

/// How the next token is chosen. Filters apply in this order, as transformers applies them:
/// repetition penalty, temperature, top-k, top-p, min-p.
struct SamplingOptions {
  double temperature = 0;         ///< 0: the most likely token (greedy)
  int64_t top_k = 0;              ///< 0: off
  double top_p = 1;               ///< 1: off
  double min_p = 0;               ///< 0: off
  double repetition_penalty = 1;  ///< 1: off; over prompt and continuation, as transformers
  uint64_t seed = 0;
};

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t max_new_tokens = 128;
  int64_t samples_per_prompt = 1;
  std::vector<int64_t> stop_ids;  ///< ends a sequence; stays in it
  /// Ends a sequence when the text of the new tokens contains one of these; needs `decode`.
  std::vector<std::string> stop_strings;
  std::function<std::string(const std::vector<int64_t>&)> decode = {};
  int64_t pad_id = 0;  ///< fills shorter prompts, at the left
  /// Called with every new token of a sequence as it appears: (sequence, token).
  std::function<void(int64_t, int64_t)> on_token = {};
  AdapterUse adapters = AdapterUse::Trained;
  /// Number of the first prompt in its data set: with it, prompts that are continued in several
  /// calls get the random numbers that one call would have given them.
  int64_t first_prompt = 0;
  /// The same for prompts that do not follow each other: one number each; empty: first_prompt and
  /// on.
  std::vector<int64_t> prompt_numbers = {};
  /// Number of the first sample of each prompt, for samples that are made in several calls.
  int64_t first_sample = 0;
  /// Log-probabilities are those of logits / temperature, as online training takes them; false: of
  /// the logits. Either way they are before the repetition penalty, top-k, top-p and min-p. Greedy
  /// choice has no temperature to divide by.
  bool logprobs_at_temperature = false;
};

struct Generated {
  std::vector<int64_t> ids;     ///< new tokens only, with the stop token if one ended it
  std::vector<float> logprobs;  ///< of each, under the model, see logprobs_at_temperature
  bool is_finished = false;     ///< ended by a stop, not by max_new_tokens
};

/// Continues every prompt, `samples_per_prompt` times each: result i * samples + j is sample j of
/// prompt i. Runs without gradients, in eval mode; the model is left as it was. A result depends on
/// its prompt, the numbers of its prompt and its sample, and the seed, not on what else is in the
/// batch (beyond the rounding of batched kernels). For a model with a CausalLm head.
REPRISE_API std::vector<Generated> generate(Model& model,
                                            const std::vector<std::vector<int64_t>>& prompts,
                                            const GenerateOptions& options = {});

/// The filters alone, for logits (B, vocabulary) and the ids seen so far (padding: -1): what is
/// ruled out becomes -inf. Temperature 0 leaves the scale as it is.
REPRISE_API at::Tensor filter_logits(at::Tensor logits,
                                     const at::Tensor& seen_ids,
                                     const SamplingOptions& options);

}  // namespace reprise
