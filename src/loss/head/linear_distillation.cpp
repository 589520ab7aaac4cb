// Weighted sum of a divergence from a teacher and the cross entropy of the targets, from the same
// logits. Gradients are computed in the same pass as the value.
#include "loss/head/divergence.h"
#include "loss/head/head_gradients.h"
#include "loss/head/linear_cross_entropy.h"
#include "loss/head/linear_divergence.h"
#include "ops/node.h"

#include <reprise/autocast.h>
#include <reprise/loss/head.h>
#include "memory/planned_device.h"

#include <ATen/ATen.h>

#include <optional>

namespace reprise {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Arguments of the Function that get no gradients.
struct DistillationInputs {
  at::Tensor targets;  // of the valid tokens
  TeacherHead teacher;
  HeadPlan plan;
  DistillationOptions options;
  HeadNeeds needs;
};

// Computes both losses, one chunk after another.
class DistillationChunks {
 public:
  DistillationChunks(const DistillationInputs& inputs, const at::Tensor& rows)
      : lesson_(inputs),
        gold_(TokenSums::allocate(rows, inputs.plan)),
        divergences_(at::empty_like(gold_.losses)) {}

  // Returns the gradient (n, V) of the student's logits over its whole vocabulary. Overwrites the
  // logits of both.
  at::Tensor visit(int64_t start, at::Tensor student, at::Tensor teacher);

  // The tensors of Distillation: sum, divergence, cross entropy, entropy, correct.
  variable_list sums() const {
    const double share = lesson_.options.coefficient;
    const auto divergence = divergences_.sum(), gold = gold_.losses.sum();
    return {divergence * share + gold * (1 - share),
            divergence,
            gold,
            gold_.entropies.sum(),
            gold_.hits.sum()};
  }

 private:
  const DistillationInputs& lesson_;
  TokenSums gold_;
  at::Tensor divergences_;
  ChunkBuffer slopes_;
  DivergenceBuffers buffers_;
};

at::Tensor DistillationChunks::visit(int64_t start, at::Tensor student, at::Tensor teacher) {
  const auto& [divergence, share] = lesson_.options;
  const int64_t count = student.size(0);
  auto grad_logits = cross_entropy_of(gold_.chunk(start, count),
                                      student,
                                      lesson_.targets.narrow(0, start, count),
                                      TokenWeighting::None,
                                      slopes_.like(student),
                                      /*products=*/buffers_.first.like(student));
  // Softmax is invariant to a constant, so log-probabilities serve as logits at any temperature.
  // This copies only if the student's vocabulary is padded and the teacher's is not.
  const auto common = student.narrow(1, 0, teacher.size(1)).contiguous();
  if (divergence.temperature != 1) {
    common.div_(divergence.temperature);
  }
  const auto wanted = lesson_.needs.any() ? LogitGradients::OfStudent : LogitGradients::None;
  const auto part = divergence_of(divergence, common, teacher, wanted, buffers_);
  divergences_.narrow(0, start, count).copy_(part.values);
  if (part.grad_logits.defined()) {
    grad_logits.mul_(1 - share);
    grad_logits.narrow(1, 0, teacher.size(1))
        .add_(part.grad_logits, share / divergence.temperature);
  }
  return grad_logits;
}

struct LinearDistillation : torch::autograd::Function<LinearDistillation> {
  static constexpr size_t kArguments = 4;

  static variable_list forward(AutogradContext* context,
                               const at::Tensor& rows,
                               const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias,
                               const DistillationInputs& inputs) {
    const AutocastScope no_autocast(
        memory::kernel_type(rows.device()), at::kFloat, /*enabled=*/false);
    DistillationChunks chunks(inputs, rows);
    HeadGradients gradients(inputs.plan, inputs.needs, rows, weight);
    ChunkLogits logits(inputs.plan, weight, bias.value_or(at::Tensor()));
    for_each_pair(rows,
                  inputs.plan,
                  logits,
                  inputs.teacher,
                  [&](int64_t start, const auto& chunk, auto ours, auto theirs) {
                    gradients.add(start, chunk, chunks.visit(start, ours, theirs), logits);
                  });
    keep_gradients(*context, gradients, weight, bias);
    const auto results = chunks.sums();
    context->mark_non_differentiable({results.begin() + 1, results.end()});
    return results;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstreams) {
    ops::check_differentiated_once("head");
    return kept_gradients(*context, upstreams[0], kArguments);
  }
};

}  // namespace

Distillation linear_distillation(const at::Tensor& student_hidden,
                                 const LinearHead& student,
                                 const at::Tensor& teacher_hidden,
                                 const LinearHead& teacher,
                                 const Targets& targets,
                                 const DistillationOptions& options) {
  TORCH_CHECK(options.coefficient >= 0 && options.coefficient <= 1,
              "[head] expected a coefficient of the divergence from 0 to 1, got ",
              options.coefficient);
  const auto pair =
      pair_heads(student_hidden, student, teacher_hidden, teacher, targets, options.divergence);
  DistillationInputs inputs{.targets = pair.tokens.targets(),
                            .teacher = pair.teacher,
                            .plan = pair.plan,
                            .options = options,
                            .needs = needs_of(student_hidden, student)};
  inputs.plan.temperature =
      1;  // for the cross entropy; the divergence divides by its temperature later
  const auto sums = LinearDistillation::apply(
      pair.tokens.rows_of(student_hidden), student.weight, optional_bias(student), inputs);
  return {.sum = sums[0],
          .divergence = sums[1],
          .cross_entropy = sums[2],
          .entropy = sums[3],
          .correct = sums[4],
          .tokens = pair.tokens.count()};
}

}  // namespace reprise
