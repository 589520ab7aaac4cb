// Losses and log-probabilities of a language-model head without materialising the logits: they are
// computed and discarded one chunk of tokens at a time. Losses that are one sum compute their
// gradients in forward. Where every token has its own upstream gradient, backward recomputes the
// logits.
//
// A token is valid if its target is not kIgnoredLabel; other tokens cost nothing. Matrix products
// run in the dtype that at::linear would use, also under autocast (a weight of another dtype is
// converted once per pass). Everything after them runs in float32, or in float64 if the products
// do. Gradients of the head are accumulated over the chunks in float32, whatever its dtype. Chunk
// sizes depend only on tensor sizes and the device, so results are bitwise equal under every memory
// policy. Double backward is not supported. On a GPU a pass waits for the device unless the host
// knows the number of valid targets (loss/targets.h).
#pragma once

#include <reprise/export.h>
#include <reprise/loss/next_token.h>
#include <reprise/loss/targets.h>
#include <reprise/model/head.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise {

struct HeadChunks {
  /// Tokens per chunk. 0: chosen so that the float32 logits of a chunk (of both heads, with a
  /// teacher) take about 64 MiB, or 512 MiB on a GPU. One or two chunks are in memory at once; with
  /// a teacher, up to two and a half.
  int64_t tokens = 0;
};

/// What token_logprobs() computes beside the log-probabilities.
struct TokenRequests {
  double temperature = 1.0;  ///< divides the logits
  bool entropy = false;      ///< differentiable
  bool log_sum_p2 = false;   ///< log of the sum over the vocabulary of squared probabilities
  bool mean_logit = false;
  bool top1 = false;  ///< whether the target is the most probable token (the first, in a tie)
  HeadChunks chunks = {};
};

/// All float32 with the shape of `targets`, 0 where the target is ignored, and undefined if not
/// requested. Only logprobs and entropy are differentiable.
struct TokenValues {
  at::Tensor logprobs, entropy, log_sum_p2, mean_logit, top1;
};

/// log p(targets | hidden). hidden (..., H); targets (...) int64, kIgnoredLabel to skip a token.
/// Saves for backward the hidden states of the valid tokens and at most two numbers per token.
REPRISE_API TokenValues token_logprobs(const at::Tensor& hidden,
                                       const LinearHead& head,
                                       const Targets& targets,
                                       const TokenRequests& requests = {});

enum class TokenWeighting : uint8_t {
  None,
  Probability,  ///< dynamic fine-tuning: each loss times the detached probability of its target
};

struct CrossEntropy {
  at::Tensor sum;      ///< float32 scalar: (weighted) -log p summed over the valid tokens
  at::Tensor entropy;  ///< float32 scalar, detached: sum of entropies
  at::Tensor correct;  ///< float32 scalar, detached: how many targets are the most probable token
  int64_t tokens = 0;  ///< number of valid tokens
};

/// Summed cross entropy. hidden (..., H), targets (...) int64. Gradients are computed in forward,
/// so logits are computed once, and saved for backward: those of hidden in its dtype, those of the
/// head in float32.
REPRISE_API CrossEntropy linear_cross_entropy(const at::Tensor& hidden,
                                              const LinearHead& head,
                                              const Targets& targets,
                                              TokenWeighting weighting = TokenWeighting::None,
                                              const HeadChunks& chunks = {});

struct DivergenceOptions {
  enum class Kind : uint8_t {
    CrossEntropy,  ///< -sum_v p_teacher log p_student: forward KL without the teacher's entropy
    Jensen,        ///< generalised Jensen-Shannon; beta 0 is KL(T||S), beta 1 is KL(S||T)
  };
  Kind kind = Kind::CrossEntropy;
  double beta = 0.5;  ///< Jensen only
  double temperature = 1.0;
  HeadChunks chunks = {};
};

/// The divergence between student and teacher at each valid token: float32 with the shape of
/// targets, 0 elsewhere. Vocabularies padded to different sizes are compared on their common part.
/// Gradients flow to the student only.
REPRISE_API at::Tensor linear_divergence(const at::Tensor& student_hidden,
                                         const LinearHead& student,
                                         const at::Tensor& teacher_hidden,
                                         const LinearHead& teacher,
                                         const Targets& targets,
                                         const DivergenceOptions& options = {});

struct DistillationOptions {
  DivergenceOptions divergence = {};
  double coefficient =
      0.4;  ///< weight of the divergence, in [0, 1]; the cross entropy gets the rest
};

/// Float32 scalars, summed over the valid tokens. Only `sum` is differentiable.
struct Distillation {
  at::Tensor sum;  ///< coefficient * divergence + (1 - coefficient) * cross_entropy
  at::Tensor divergence;
  at::Tensor cross_entropy;  ///< of the targets, at temperature 1
  at::Tensor entropy;        ///< of the student
  at::Tensor correct;        ///< how many targets are the student's most probable token
  int64_t tokens = 0;        ///< number of valid tokens
};

/// The sums of linear_divergence and linear_cross_entropy, with the student's logits computed once
/// and a single float32 gradient for its head. Gradients are computed in forward, as in
/// linear_cross_entropy, so nothing of the teacher is saved for backward.
REPRISE_API Distillation linear_distillation(const at::Tensor& student_hidden,
                                             const LinearHead& student,
                                             const at::Tensor& teacher_hidden,
                                             const LinearHead& teacher,
                                             const Targets& targets,
                                             const DistillationOptions& options = {});

}  // namespace reprise
