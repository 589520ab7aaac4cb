// The loss of a process reward model, which judges each step of an answer.
//
// Judged are a few places of a row: the placeholder tokens (OpenRLHF) or the last token of each
// step (TRL). Only their logits are made: over all tokens, over the few that stand for a reward, or
// over the classes of a token classifier.
#pragma once

#include <reprise/export.h>
#include <reprise/loss/next_token.h>
#include <reprise/model/head.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace reprise {

/// Float32 logits (N, K) at the N places where `places` (B, T) is true, of hidden (B, T, H): over
/// the vocabulary, or over `reward_tokens` alone. The step at t is judged by the logits at t.
REPRISE_API at::Tensor step_logits(const at::Tensor& hidden,
                                   const LinearHead& head,
                                   const at::Tensor& places,
                                   const std::vector<int64_t>& reward_tokens = {});

/// Which of reward_tokens each label is. labels of any shape: token ids or kIgnoredLabel, which
/// stays. Throws naming an id that is not among them; waits for the labels' device.
REPRISE_API at::Tensor reward_token_classes(const at::Tensor& labels,
                                            const std::vector<int64_t>& reward_tokens);

struct ProcessRewardResult {
  at::Tensor loss;      ///< scalar: mean over the steps that count; 0 if there are none
  at::Tensor accuracy;  ///< scalar, detached: share of them whose likeliest class is the label
  at::Tensor count;     ///< scalar int64: how many count
};

/// Cross entropy. logits (N, K), or (B, T, K) of a token classifier; labels (N) or (B, T) int64 in
/// [0, K) or kIgnoredLabel.
REPRISE_API ProcessRewardResult process_reward_loss(const at::Tensor& logits,
                                                    const at::Tensor& labels);

/// Cross entropy with the distribution [p, 1 - p]: logits (N, 2) of the good and the bad reward
/// token, probability (N) that the step is good.
REPRISE_API ProcessRewardResult soft_process_reward_loss(const at::Tensor& logits,
                                                         const at::Tensor& probability);

}  // namespace reprise
