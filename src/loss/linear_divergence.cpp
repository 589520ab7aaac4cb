// Divergences of a student's distributions from a teacher's. Backward makes the logits of both
// again, a chunk at a time.
#include "loss/counting_tokens.h"
#include "loss/head_chunks.h"
#include "loss/head_gradients.h"

#include <reprise/autocast.h>
#include <reprise/loss/head.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace reprise {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Kind = DivergenceOptions::Kind;

// Chunk-sized room beside the two heads' logits.
struct Scratch {
  ChunkBuffer first, second;
};

// Which divergence: the ends of Jensen's range are divergences of their own.
class Divergence {
 public:
  Divergence(Kind kind, double beta) : kind_(kind), beta_(beta) {}

  // (n) of logits (n, V) of student and teacher, which are overwritten.
  at::Tensor value(at::Tensor student, at::Tensor teacher, Scratch& scratch) const;
  // The gradient (n, V) of the student's logits for upstream (n, 1). Overwrites the logits too.
  at::Tensor slopes(at::Tensor student,
                    at::Tensor teacher,
                    const at::Tensor& upstream,
                    Scratch& scratch) const;

 private:
  bool is_forward() const { return kind_ == Kind::CrossEntropy || beta_ == 0; }
  at::Tensor mixture(const at::Tensor& student,
                     const at::Tensor& teacher,
                     at::Tensor out,
                     ChunkBuffer& scratch) const;

  Kind kind_;
  double beta_;
};

void to_log_softmax(at::Tensor& logits) {
  at::_log_softmax_out(logits, logits, 1, /*half_to_float=*/false);
}

void to_softmax(at::Tensor& logits) {
  at::_softmax_out(logits, logits, 1, /*half_to_float=*/false);
}

// KL(P || Q) of log-probabilities; overwrites those of P.
at::Tensor kl(at::Tensor log_p, const at::Tensor& log_q, ChunkBuffer& scratch) {
  auto p = scratch.like(log_p);
  at::exp_out(p, log_p);
  return log_p.sub_(log_q).mul_(p).sum(1);
}

// log((1 - beta) S + beta T) into `out`, which may be the teacher's own.
at::Tensor Divergence::mixture(const at::Tensor& student,
                               const at::Tensor& teacher,
                               at::Tensor out,
                               ChunkBuffer& scratch) const {
  // As tensors, because add_out with a number allocates a second result.
  const auto log_of_rest = at::scalar_tensor(std::log1p(-beta_), at::kDouble);
  const auto log_of_beta = at::scalar_tensor(std::log(beta_), at::kDouble);
  auto weighted = scratch.like(student);
  at::add_out(weighted, student, log_of_rest);
  at::add_out(out, teacher, log_of_beta);
  return at::logaddexp_out(out, weighted, out);
}

at::Tensor Divergence::value(at::Tensor student, at::Tensor teacher, Scratch& scratch) const {
  to_log_softmax(student);
  if (kind_ == Kind::CrossEntropy) {
    to_softmax(teacher);
    return student.mul_(teacher).sum(1).neg_();
  }
  to_log_softmax(teacher);
  if (beta_ == 0) {
    return kl(teacher, student, scratch.first);
  }
  if (beta_ == 1) {
    return kl(student, teacher, scratch.first);
  }
  const auto mixed = mixture(student, teacher, scratch.second.like(student), scratch.first);
  return kl(teacher, mixed, scratch.first).mul_(beta_) +
         kl(student, mixed, scratch.first).mul_(1 - beta_);
}

// Note [Gradients of divergences]
// Forward KL and cross entropy: S - T. The others are sums over S and the mixture M, and what M's
// change contributes is constant over the vocabulary, so that only c (log S - log M) is left as the
// gradient of S, with c = 1 - beta (reverse KL: M = T and c = 1). Through the softmax that is
// c S (d - sum S d) with d = log S - log M.
at::Tensor Divergence::slopes(at::Tensor student,
                              at::Tensor teacher,
                              const at::Tensor& upstream,
                              Scratch& scratch) const {
  if (is_forward()) {
    to_softmax(student);
    to_softmax(teacher);
    return student.sub_(teacher).mul_(upstream);
  }
  to_log_softmax(student);
  to_log_softmax(teacher);
  double factor = 1;
  if (beta_ < 1) {
    mixture(student, teacher, /*out=*/teacher, scratch.first);
    factor = 1 - beta_;
  }
  const auto difference = at::sub_out(teacher, student, teacher);
  const auto p = student.exp_();
  auto product = scratch.first.like(p);
  at::mul_out(product, p, difference);
  return teacher.sub_(product.sum(1, /*keepdim=*/true)).mul_(p).mul_(upstream * factor);
}

// What no gradient reaches. Autograd sees it as one argument without tensors.
struct Teacher {
  at::Tensor rows, weight, bias;
  HeadPlan plan;
};

// The head without the rows that only padding has.
LinearHead first_rows(const LinearHead& head, int64_t vocabulary) {
  if (head.weight.size(0) == vocabulary) {
    return head;
  }
  return {.weight = head.weight.narrow(0, 0, vocabulary),
          .bias = head.bias.defined() ? head.bias.narrow(0, 0, vocabulary) : at::Tensor(),
          .in_float32 = head.in_float32};
}

// Calls visit(start, rows, student's logits, teacher's logits) for each chunk.
template <class Visit>
void for_each_pair(const at::Tensor& rows,
                   const HeadPlan& plan,
                   ChunkLogits& student,
                   const Teacher& teacher,
                   Visit&& visit) {
  ChunkLogits teacher_logits(teacher.plan, teacher.weight, teacher.bias);
  for_each_chunk(rows.size(0), plan, [&](int64_t start, int64_t count) {
    const auto chunk = rows.narrow(0, start, count).to(plan.product);
    const auto teacher_chunk = teacher.rows.narrow(0, start, count).to(teacher.plan.product);
    visit(start, chunk, student.of(chunk), teacher_logits.of(teacher_chunk));
  });
}

struct LinearDivergence : torch::autograd::Function<LinearDivergence> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& rows,
                            const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            const Teacher& teacher,
                            const HeadPlan& plan,
                            const DivergenceOptions& options) {
    const AutocastScope no_autocast(rows.device().type(), at::kFloat, /*enabled=*/false);
    const Divergence divergence(options.kind, options.beta);
    auto values =
        at::empty({rows.size(0)}, rows.options().dtype(plan.statistics).requires_grad(false));
    ChunkLogits logits(plan, weight, bias.value_or(at::Tensor()));
    Scratch scratch;
    for_each_pair(
        rows, plan, logits, teacher, [&](int64_t start, const auto& chunk, auto ours, auto theirs) {
          values.narrow(0, start, chunk.size(0)).copy_(divergence.value(ours, theirs, scratch));
        });
    keep_plan(*context, plan);
    context->saved_data["teacher_product"] = static_cast<int64_t>(teacher.plan.product);
    context->saved_data["kind"] = static_cast<int64_t>(options.kind);
    context->saved_data["beta"] = options.beta;
    context->save_for_backward(
        {rows, weight, bias.value_or(at::Tensor()), teacher.rows, teacher.weight, teacher.bias});
    return values;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstreams) {
    check_differentiated_once();
    const auto saved = context->get_saved_variables();
    const auto &rows = saved[0], &weight = saved[1], &bias = saved[2];
    const auto& data = context->saved_data;
    const HeadPlan plan = kept_plan(*context);
    Teacher teacher{.rows = saved[3], .weight = saved[4], .bias = saved[5], .plan = plan};
    teacher.plan.product = static_cast<at::ScalarType>(data.at("teacher_product").toInt());
    const AutocastScope no_autocast(rows.device().type(), at::kFloat, /*enabled=*/false);
    const Divergence divergence(static_cast<Kind>(data.at("kind").toInt()),
                                data.at("beta").toDouble());
    const auto upstream = (upstreams[0] / plan.temperature).unsqueeze(1);

    HeadGradients gradients(plan, needs_of(*context, bias.defined()), rows, weight);
    ChunkLogits logits(plan, weight, bias);
    Scratch scratch;
    for_each_pair(
        rows, plan, logits, teacher, [&](int64_t start, const auto& chunk, auto ours, auto theirs) {
          const auto part = upstream.narrow(0, start, chunk.size(0));
          gradients.add(start, chunk, divergence.slopes(ours, theirs, part, scratch), logits);
        });
    return {gradients.hidden,
            as_gradient(gradients.weight, weight.scalar_type()),
            bias.defined() ? as_gradient(gradients.bias, bias.scalar_type()) : at::Tensor(),
            {},
            {},
            {}};
  }
};

}  // namespace

at::Tensor linear_divergence(const at::Tensor& student_hidden,
                             const LinearHead& student,
                             const at::Tensor& teacher_hidden,
                             const LinearHead& teacher,
                             const at::Tensor& targets,
                             const DivergenceOptions& options) {
  check_head(student_hidden, student, targets);
  check_head(teacher_hidden, teacher, targets);
  TORCH_CHECK(options.beta >= 0 && options.beta <= 1,
              "[head] expected a beta from 0 to 1, got ",
              options.beta);
  const int64_t vocabulary = std::min(student.weight.size(0), teacher.weight.size(0));
  const auto ours = first_rows(student, vocabulary);
  const auto theirs = first_rows(teacher, vocabulary);
  const CountingTokens tokens(targets, vocabulary);
  const auto plan_for = [&](const at::Tensor& hidden, const LinearHead& head) {
    return plan_head(hidden, head, options.chunks, options.temperature, /*heads=*/2);
  };
  const HeadPlan plan = plan_for(student_hidden, ours);
  HeadPlan teacher_plan = plan;
  teacher_plan.product = plan_for(teacher_hidden, theirs).product;
  const auto values = LinearDivergence::apply(
      tokens.rows_of(student_hidden),
      ours.weight,
      optional_bias(ours),
      Teacher{.rows = tokens.rows_of(teacher_hidden.detach()),
              .weight = theirs.weight.detach(),
              .bias = theirs.bias.defined() ? theirs.bias.detach() : theirs.bias,
              .plan = teacher_plan},
      plan,
      options);
  return tokens.spread(values);
}

}  // namespace reprise
