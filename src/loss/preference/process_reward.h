// The loss of a process reward model, which scores each step of an answer.
//
// A row is scored at a few positions: the placeholder tokens (OpenRLHF) or the last token of each
// step (TRL). Logits are computed only there, over the vocabulary, over the reward tokens, or over
// the classes of a token classifier.
#pragma once

#include <reprise/export.h>
#include <reprise/loss/next_token.h>
#include <reprise/model/head.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace reprise {

/// Float32 logits (N, K) at the N positions where `positions` (B, T) is true. hidden (B, T, H). K
/// is the vocabulary, or only `reward_tokens`. The step at position t is scored by the logits at t.
REPRISE_API at::Tensor step_logits(const at::Tensor& hidden,
                                   const LinearHead& head,
                                   const at::Tensor& positions,
                                   const std::vector<int64_t>& reward_tokens = {});

/// Replaces each label, a token id, by its index in reward_tokens; kIgnoredLabel stays. Labels may
/// have any shape. Throws for an id that is not a reward token. Waits for the device of the labels.
REPRISE_API at::Tensor reward_token_classes(const at::Tensor& labels,
                                            const std::vector<int64_t>& reward_tokens);

struct ProcessRewardResult {
  at::Tensor loss;      ///< scalar: mean over the labelled steps; 0 if there are none
  at::Tensor accuracy;  ///< scalar, detached: share of them whose most likely class is the label
  at::Tensor count;     ///< scalar int64: number of labelled steps
};

/// Cross entropy. logits (N, K), or (B, T, K) from a token classifier; labels (N) or (B, T) int64,
/// in [0, K) or kIgnoredLabel.
REPRISE_API ProcessRewardResult process_reward_loss(const at::Tensor& logits,
                                                    const at::Tensor& labels);

/// Cross entropy with the distribution [p, 1 - p]. logits (N, 2) of the good and the bad reward
/// token; probability p (N) that the step is good.
REPRISE_API ProcessRewardResult soft_process_reward_loss(const at::Tensor& logits,
                                                         const at::Tensor& probability);

}  // namespace reprise
