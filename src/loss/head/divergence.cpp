#include "loss/head/divergence.h"

#include <ATen/ATen.h>

#include <cmath>

namespace reprise {

// Note [Gradients of divergences]
// S, T and M are the probabilities of the student, the teacher and their mixture. For forward KL
// and cross entropy the gradient of the student's logits is S - T. The other divergences are sums
// over S and M; the contribution of a change in M is constant over the vocabulary, so the gradient
// with respect to S is c (log S - log M), with c = 1 - beta (reverse KL: M = T and c = 1). Through
// the softmax this becomes c S (d - sum S d) with d = log S - log M. The value needs sum S d = KL(S
// || M) too.

namespace {

void to_log_softmax(at::Tensor& logits) {
  at::_log_softmax_out(logits, logits, 1, /*half_to_float=*/false);
}

// -sum T log S.
ChunkDivergence cross_entropy(at::Tensor student,
                              at::Tensor teacher,
                              LogitGradients wanted,
                              DivergenceBuffers& buffers) {
  to_log_softmax(student);
  at::_softmax_out(teacher, teacher, 1, /*half_to_float=*/false);
  auto product = wanted == LogitGradients::None ? student : buffers.first.like(student);
  at::mul_out(product, student, teacher);
  ChunkDivergence out{.values = product.sum(1).neg_(), .grad_logits = {}};
  if (wanted == LogitGradients::OfStudent) {
    out.grad_logits = student.exp_().sub_(teacher);
  }
  return out;
}

// KL(T || S).
ChunkDivergence forward_kl(at::Tensor student,
                           at::Tensor teacher,
                           LogitGradients wanted,
                           DivergenceBuffers& buffers) {
  to_log_softmax(student);
  to_log_softmax(teacher);
  auto p = buffers.first.like(teacher);
  at::exp_out(p, teacher);
  ChunkDivergence out{.values = teacher.sub_(student).mul_(p).sum(1), .grad_logits = {}};
  if (wanted == LogitGradients::OfStudent) {
    out.grad_logits = student.exp_().sub_(p);
  }
  return out;
}

// KL(S || M) from log-probabilities, with its gradient for constant M, written over M.
ChunkDivergence kl_of_student(at::Tensor student,
                              at::Tensor mixed,
                              LogitGradients wanted,
                              ChunkBuffer& scratch) {
  const auto difference = at::sub_out(mixed, student, mixed);
  const auto p = student.exp_();
  auto product = scratch.like(p);
  at::mul_out(product, p, difference);
  ChunkDivergence out{.values = product.sum(1), .grad_logits = {}};
  if (wanted == LogitGradients::OfStudent) {
    out.grad_logits = mixed.sub_(out.values.unsqueeze(1)).mul_(p);
  }
  return out;
}

ChunkDivergence reverse_kl(at::Tensor student,
                           at::Tensor teacher,
                           LogitGradients wanted,
                           DivergenceBuffers& buffers) {
  to_log_softmax(student);
  to_log_softmax(teacher);
  return kl_of_student(student, teacher, wanted, buffers.first);
}

// beta KL(T || M) + (1 - beta) KL(S || M) with M = (1 - beta) S + beta T.
ChunkDivergence jensen_shannon(double beta,
                               at::Tensor student,
                               at::Tensor teacher,
                               LogitGradients wanted,
                               DivergenceBuffers& buffers) {
  to_log_softmax(student);
  to_log_softmax(teacher);
  // Tensors, because add_out with a number allocates a second result.
  const auto log_of_rest = at::scalar_tensor(std::log1p(-beta), at::kDouble);
  const auto log_of_beta = at::scalar_tensor(std::log(beta), at::kDouble);
  auto weighted = buffers.first.like(student);
  auto mixed = buffers.second.like(student);
  at::add_out(weighted, student, log_of_rest);
  at::add_out(mixed, teacher, log_of_beta);
  at::logaddexp_out(mixed, weighted, mixed);

  auto p = buffers.first.like(teacher);
  at::exp_out(p, teacher);
  const auto of_teacher = teacher.sub_(mixed).mul_(p).sum(1);
  auto out = kl_of_student(student, mixed, wanted, buffers.first);
  out.values = of_teacher.mul_(beta).add_(out.values, 1 - beta);
  if (wanted == LogitGradients::OfStudent) {
    out.grad_logits.mul_(1 - beta);
  }
  return out;
}

}  // namespace

ChunkDivergence divergence_of(const DivergenceOptions& options,
                              at::Tensor student,
                              at::Tensor teacher,
                              LogitGradients wanted,
                              DivergenceBuffers& buffers) {
  if (options.kind == DivergenceOptions::Kind::CrossEntropy) {
    return cross_entropy(student, teacher, wanted, buffers);
  }
  // At beta 0 and 1 the generalised divergence is defined as one of the KLs.
  if (options.beta == 0) {
    return forward_kl(student, teacher, wanted, buffers);
  }
  if (options.beta == 1) {
    return reverse_kl(student, teacher, wanted, buffers);
  }
  return jensen_shannon(options.beta, student, teacher, wanted, buffers);
}

}  // namespace reprise
