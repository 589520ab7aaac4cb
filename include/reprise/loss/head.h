// What objectives need of a language-model head, without the logits: they are made and dropped a
// chunk of tokens at a time. Losses of one sum are done with them in forward; where every token has
// a gradient of its own, backward makes them again.
//
// Ignored tokens cost nothing. Matrix products run in the type that at::linear would take, under
// autocast too (a weight of another type is converted once a pass); everything after them in
// float32, or in float64 if the products are. Gradients of the head are summed in float32 over the
// chunks, whatever its type. How a batch is cut into chunks depends on sizes and the device alone,
// so results are the same to the last bit under every memory policy. Differentiable once. On a GPU
// a pass waits for the device unless the host knows its targets (loss/targets.h).
#pragma once

#include <reprise/export.h>
#include <reprise/loss/next_token.h>
#include <reprise/loss/targets.h>
#include <reprise/model/head.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise {

struct HeadChunks {
  /// Per chunk; 0: chosen so that its float32 logits (of both heads, with a teacher) take about
  /// 64 MiB (512 MiB on a GPU). One or two chunks are held at once; with a teacher, up to two and a
  /// half.
  int64_t tokens = 0;
};

struct TokenRequests {
  double temperature = 1.0;  ///< logits are divided by it
  bool entropy = false;      ///< differentiable
  bool log_sum_p2 = false;   ///< log of the sum of squared probabilities
  bool mean_logit = false;
  bool top1 = false;  ///< whether the target is the most probable token (of equals, the first)
  HeadChunks chunks = {};
};

/// All float32 of the shape of `targets`; 0 where the target is ignored; undefined if not asked
/// for. Only logprobs and entropy carry gradients.
struct TokenValues {
  at::Tensor logprobs, entropy, log_sum_p2, mean_logit, top1;
};

/// log p(targets | hidden). hidden (..., H), targets (...) int64 with kIgnoredLabel. What is kept
/// for backward: hidden at the tokens that count and at most two numbers each.
REPRISE_API TokenValues token_logprobs(const at::Tensor& hidden,
                                       const LinearHead& head,
                                       const Targets& targets,
                                       const TokenRequests& requests = {});

enum class TokenWeighting : uint8_t {
  None,
  Probability,  ///< dynamic fine-tuning: each token's loss times its own probability, detached
};

struct CrossEntropy {
  at::Tensor sum;      ///< of -log p (weighted) over the tokens that count; a float32 scalar
  at::Tensor entropy;  ///< sum of entropies, detached
  at::Tensor correct;  ///< how many targets are the most probable token, detached, float32 too
  int64_t tokens = 0;  ///< how many count
};

/// Cross entropy, summed. Gradients are computed in the same pass as the value (so logits are made
/// once) and kept for backward: of hidden, in its type, and of the head, in float32.
REPRISE_API CrossEntropy linear_cross_entropy(const at::Tensor& hidden,
                                              const LinearHead& head,
                                              const Targets& targets,
                                              TokenWeighting weighting = TokenWeighting::None,
                                              const HeadChunks& chunks = {});

struct DivergenceOptions {
  enum class Kind : uint8_t {
    CrossEntropy,  ///< -sum_v p_teacher log p_student: forward KL without the teacher's entropy
    Jensen,        ///< generalised Jensen-Shannon: beta 0 is KL(T||S), beta 1 is KL(S||T)
  };
  Kind kind = Kind::CrossEntropy;
  double beta = 0.5;  ///< Jensen only
  double temperature = 1.0;
  HeadChunks chunks = {};
};

/// The divergence of student from teacher at each token that `targets` does not ignore, float32 of
/// the shape of targets, 0 elsewhere. Vocabularies that were padded to different sizes are compared
/// on their common part. Gradients reach the student only.
REPRISE_API at::Tensor linear_divergence(const at::Tensor& student_hidden,
                                         const LinearHead& student,
                                         const at::Tensor& teacher_hidden,
                                         const LinearHead& teacher,
                                         const Targets& targets,
                                         const DivergenceOptions& options = {});

struct DistillationOptions {
  DivergenceOptions divergence = {};
  double coefficient = 0.4;  ///< share of the divergence; the rest is cross entropy
};

/// Sums over the tokens that count, float32 scalars. Only `sum` carries gradients.
struct Distillation {
  at::Tensor sum;  ///< coefficient * divergence + (1 - coefficient) * cross_entropy
  at::Tensor divergence;
  at::Tensor cross_entropy;  ///< of the targets, at temperature 1
  at::Tensor entropy;        ///< of the student
  at::Tensor correct;        ///< how many targets are the student's most probable token
  int64_t tokens = 0;        ///< how many count
};

/// What linear_divergence and linear_cross_entropy would sum to, with the student's logits made
/// once and one gradient of its head, in float32. As with linear_cross_entropy, gradients are
/// computed in the same pass as the value, so nothing of the teacher is kept for backward.
REPRISE_API Distillation linear_distillation(const at::Tensor& student_hidden,
                                             const LinearHead& student,
                                             const at::Tensor& teacher_hidden,
                                             const LinearHead& teacher,
                                             const Targets& targets,
                                             const DistillationOptions& options = {});

}  // namespace reprise
