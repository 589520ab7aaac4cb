// A divergence from a teacher and the cross entropy of the tokens, weighted: from the same logits,
// and with one gradient that is made in the same pass as the value.
#include "loss/divergence.h"
#include "loss/head_gradients.h"
#include "loss/linear_cross_entropy.h"
#include "loss/linear_divergence.h"
#include "ops/node.h"

#include <reprise/autocast.h>
#include <reprise/detail/planned_device.h>
#include <reprise/loss/head.h>

#include <ATen/ATen.h>

#include <optional>

namespace reprise {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What the function takes beside the tensors that gradients reach.
struct Lesson {
  at::Tensor targets;  // that count
  TeacherHead teacher;
  HeadPlan plan;
  DistillationOptions options;
  HeadNeeds needs;
};

// Both losses of one chunk after another.
class LessonChunks {
 public:
  LessonChunks(const Lesson& lesson, const at::Tensor& rows)
      : lesson_(lesson),
        gold_(TokenSums::room_for(rows, lesson.plan)),
        divergences_(at::empty_like(gold_.losses)) {}

  // The gradient (n, V) of the student's logits, for the whole of its vocabulary. Overwrites the
  // logits of both.
  at::Tensor visit(int64_t start, at::Tensor student, at::Tensor teacher);

  // What Distillation holds: sum, divergence, cross entropy, entropy, correct.
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
  const Lesson& lesson_;
  TokenSums gold_;
  at::Tensor divergences_;
  ChunkBuffer slopes_;
  DivergenceRoom room_;
};

at::Tensor LessonChunks::visit(int64_t start, at::Tensor student, at::Tensor teacher) {
  const auto& [divergence, share] = lesson_.options;
  const int64_t count = student.size(0);
  auto slopes = cross_entropy_of(gold_.chunk(start, count),
                                 student,
                                 lesson_.targets.narrow(0, start, count),
                                 TokenWeighting::None,
                                 slopes_.like(student),
                                 /*products=*/room_.first.like(student));
  // A softmax does not see a constant, so log-probabilities are logits too, at any temperature.
  // This copies only where the student's vocabulary has padding that the teacher's has not.
  const auto common = student.narrow(1, 0, teacher.size(1)).contiguous();
  if (divergence.temperature != 1) {
    common.div_(divergence.temperature);
  }
  const auto wanted = lesson_.needs.any() ? Slopes::OfStudent : Slopes::None;
  const auto part = divergence_of(divergence, common, teacher, wanted, room_);
  divergences_.narrow(0, start, count).copy_(part.values);
  if (part.slopes.defined()) {
    slopes.mul_(1 - share);
    slopes.narrow(1, 0, teacher.size(1)).add_(part.slopes, share / divergence.temperature);
  }
  return slopes;
}

struct LinearDistillation : torch::autograd::Function<LinearDistillation> {
  static constexpr size_t kArguments = 4;

  static variable_list forward(AutogradContext* context,
                               const at::Tensor& rows,
                               const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias,
                               const Lesson& lesson) {
    const AutocastScope no_autocast(
        detail::kernel_type(rows.device()), at::kFloat, /*enabled=*/false);
    LessonChunks chunks(lesson, rows);
    HeadGradients gradients(lesson.plan, lesson.needs, rows, weight);
    ChunkLogits logits(lesson.plan, weight, bias.value_or(at::Tensor()));
    for_each_pair(rows,
                  lesson.plan,
                  logits,
                  lesson.teacher,
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
              "[head] expected a share of the divergence from 0 to 1, got ",
              options.coefficient);
  const auto pair =
      pair_heads(student_hidden, student, teacher_hidden, teacher, targets, options.divergence);
  Lesson lesson{.targets = pair.tokens.targets(),
                .teacher = pair.teacher,
                .plan = pair.plan,
                .options = options,
                .needs = needs_of(student_hidden, student)};
  lesson.plan.temperature = 1;  // the tokens' own; the divergence divides by its own later
  const auto sums = LinearDistillation::apply(
      pair.tokens.rows_of(student_hidden), student.weight, optional_bias(student), lesson);
  return {.sum = sums[0],
          .divergence = sums[1],
          .cross_entropy = sums[2],
          .entropy = sums[3],
          .correct = sums[4],
          .tokens = pair.tokens.count()};
}

}  // namespace reprise
