#include "loss/divergence.h"

#include <ATen/ATen.h>

#include <cmath>

namespace reprise {

// Note [Gradients of divergences]
// Forward KL and cross entropy: S - T. The others are sums over S and the mixture M, and what M's
// change contributes is constant over the vocabulary, so that only c (log S - log M) is left as the
// gradient of S, with c = 1 - beta (reverse KL: M = T and c = 1). Through the softmax that is
// c S (d - sum S d) with d = log S - log M, where sum S d is KL(S || M), which the value needs too.

namespace {

void to_log_softmax(at::Tensor& logits) {
  at::_log_softmax_out(logits, logits, 1, /*half_to_float=*/false);
}

// -sum T log S.
ChunkDivergence cross_entropy(at::Tensor student,
                              at::Tensor teacher,
                              Slopes slopes,
                              DivergenceRoom& room) {
  to_log_softmax(student);
  at::_softmax_out(teacher, teacher, 1, /*half_to_float=*/false);
  auto product = slopes == Slopes::None ? student : room.first.like(student);
  at::mul_out(product, student, teacher);
  ChunkDivergence out{.values = product.sum(1).neg_(), .slopes = {}};
  if (slopes == Slopes::OfStudent) {
    out.slopes = student.exp_().sub_(teacher);
  }
  return out;
}

// KL(T || S).
ChunkDivergence forward_kl(at::Tensor student,
                           at::Tensor teacher,
                           Slopes slopes,
                           DivergenceRoom& room) {
  to_log_softmax(student);
  to_log_softmax(teacher);
  auto p = room.first.like(teacher);
  at::exp_out(p, teacher);
  ChunkDivergence out{.values = teacher.sub_(student).mul_(p).sum(1), .slopes = {}};
  if (slopes == Slopes::OfStudent) {
    out.slopes = student.exp_().sub_(p);
  }
  return out;
}

// KL(S || M) of log-probabilities, and its slopes with M held constant, which lie in M's place.
ChunkDivergence kl_of_student(at::Tensor student,
                              at::Tensor mixed,
                              Slopes slopes,
                              ChunkBuffer& scratch) {
  const auto difference = at::sub_out(mixed, student, mixed);
  const auto p = student.exp_();
  auto product = scratch.like(p);
  at::mul_out(product, p, difference);
  ChunkDivergence out{.values = product.sum(1), .slopes = {}};
  if (slopes == Slopes::OfStudent) {
    out.slopes = mixed.sub_(out.values.unsqueeze(1)).mul_(p);
  }
  return out;
}

ChunkDivergence reverse_kl(at::Tensor student,
                           at::Tensor teacher,
                           Slopes slopes,
                           DivergenceRoom& room) {
  to_log_softmax(student);
  to_log_softmax(teacher);
  return kl_of_student(student, teacher, slopes, room.first);
}

// beta KL(T || M) + (1 - beta) KL(S || M) with M = (1 - beta) S + beta T.
ChunkDivergence jensen_shannon(
    double beta, at::Tensor student, at::Tensor teacher, Slopes slopes, DivergenceRoom& room) {
  to_log_softmax(student);
  to_log_softmax(teacher);
  // As tensors, because add_out with a number allocates a second result.
  const auto log_of_rest = at::scalar_tensor(std::log1p(-beta), at::kDouble);
  const auto log_of_beta = at::scalar_tensor(std::log(beta), at::kDouble);
  auto weighted = room.first.like(student);
  auto mixed = room.second.like(student);
  at::add_out(weighted, student, log_of_rest);
  at::add_out(mixed, teacher, log_of_beta);
  at::logaddexp_out(mixed, weighted, mixed);

  auto p = room.first.like(teacher);
  at::exp_out(p, teacher);
  const auto of_teacher = teacher.sub_(mixed).mul_(p).sum(1);
  auto out = kl_of_student(student, mixed, slopes, room.first);
  out.values = of_teacher.mul_(beta).add_(out.values, 1 - beta);
  if (slopes == Slopes::OfStudent) {
    out.slopes.mul_(1 - beta);
  }
  return out;
}

}  // namespace

ChunkDivergence divergence_of(const DivergenceOptions& options,
                              at::Tensor student,
                              at::Tensor teacher,
                              Slopes slopes,
                              DivergenceRoom& room) {
  if (options.kind == DivergenceOptions::Kind::CrossEntropy) {
    return cross_entropy(student, teacher, slopes, room);
  }
  // The ends of Jensen's range are divergences of their own.
  if (options.beta == 0) {
    return forward_kl(student, teacher, slopes, room);
  }
  if (options.beta == 1) {
    return reverse_kl(student, teacher, slopes, room);
  }
  return jensen_shannon(options.beta, student, teacher, slopes, room);
}

}  // namespace reprise
