// Per-token divergences between student and teacher. Every token has its own upstream gradient, so
// backward recomputes the logits of both, one chunk at a time.
#include "loss/head/linear_divergence.h"

#include "loss/head/divergence.h"
#include "loss/head/head_gradients.h"
#include "ops/node.h"

#include <reprise/autocast.h>
#include "memory/planned_device.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace reprise {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The head restricted to the first rows, without padding of the vocabulary.
LinearHead first_rows(const LinearHead& head, int64_t vocabulary) {
  if (head.weight.size(0) == vocabulary) {
    return head;
  }
  return {.weight = head.weight.narrow(0, 0, vocabulary),
          .bias = head.bias.defined() ? head.bias.narrow(0, 0, vocabulary) : at::Tensor(),
          .in_float32 = head.in_float32,
          .shape = head.shape};
}

struct LinearDivergence : torch::autograd::Function<LinearDivergence> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& rows,
                            const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            const TeacherHead& teacher,
                            const HeadPlan& plan,
                            const DivergenceOptions& options) {
    const AutocastScope no_autocast(
        memory::kernel_type(rows.device()), at::kFloat, /*enabled=*/false);
    auto values =
        at::empty({rows.size(0)}, rows.options().dtype(plan.statistics).requires_grad(false));
    ChunkLogits logits(plan, weight, bias.value_or(at::Tensor()));
    DivergenceBuffers buffers;
    for_each_pair(
        rows, plan, logits, teacher, [&](int64_t start, const auto& chunk, auto ours, auto theirs) {
          const auto part = divergence_of(options, ours, theirs, LogitGradients::None, buffers);
          values.narrow(0, start, chunk.size(0)).copy_(part.values);
        });
    keep_plan(*context, plan);
    context->saved_data["teacher_product"] = static_cast<int64_t>(teacher.plan.product);
    context->saved_data["teacher_scale"] = teacher.plan.shape.scale;
    context->saved_data["teacher_softcap"] = teacher.plan.shape.softcap;
    context->saved_data["kind"] = static_cast<int64_t>(options.kind);
    context->saved_data["beta"] = options.beta;
    context->save_for_backward(
        {rows, weight, bias.value_or(at::Tensor()), teacher.rows, teacher.weight, teacher.bias});
    return values;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstreams) {
    ops::check_differentiated_once("head");
    const auto saved = context->get_saved_variables();
    const auto &rows = saved[0], &weight = saved[1], &bias = saved[2];
    const auto& data = context->saved_data;
    const HeadPlan plan = kept_plan(*context);
    TeacherHead teacher{.rows = saved[3], .weight = saved[4], .bias = saved[5], .plan = plan};
    teacher.plan.product = static_cast<at::ScalarType>(data.at("teacher_product").toInt());
    teacher.plan.shape = {.scale = data.at("teacher_scale").toDouble(),
                          .softcap = data.at("teacher_softcap").toDouble()};
    const AutocastScope no_autocast(
        memory::kernel_type(rows.device()), at::kFloat, /*enabled=*/false);
    const DivergenceOptions options{
        .kind = static_cast<DivergenceOptions::Kind>(data.at("kind").toInt()),
        .beta = data.at("beta").toDouble()};
    const auto upstream = (upstreams[0] / plan.temperature).unsqueeze(1);

    HeadGradients gradients(plan, needs_of(*context, bias.defined()), rows, weight);
    ChunkLogits logits(plan, weight, bias);
    DivergenceBuffers buffers;
    for_each_pair(
        rows, plan, logits, teacher, [&](int64_t start, const auto& chunk, auto ours, auto theirs) {
          const auto part =
              divergence_of(options, ours, theirs, LogitGradients::OfStudent, buffers);
          part.grad_logits.mul_(upstream.narrow(0, start, chunk.size(0)));
          gradients.add(start, chunk, part.grad_logits, logits);
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

HeadPair pair_heads(const at::Tensor& student_hidden,
                    const LinearHead& student,
                    const at::Tensor& teacher_hidden,
                    const LinearHead& teacher,
                    const Targets& targets,
                    const DivergenceOptions& options) {
  check_head(student_hidden, student, targets.tokens);
  check_head(teacher_hidden, teacher, targets.tokens);
  TORCH_CHECK(options.beta >= 0 && options.beta <= 1,
              "[head] expected a beta from 0 to 1, got ",
              options.beta);
  const int64_t vocabulary = std::min(student.weight.size(0), teacher.weight.size(0));
  const auto theirs = first_rows(teacher, vocabulary);
  ValidTokens tokens(targets, vocabulary);
  const auto plan_for = [&](const at::Tensor& hidden, const LinearHead& head) {
    return plan_head(hidden, head, options.chunks, options.temperature, /*heads=*/2);
  };
  const HeadPlan plan = plan_for(student_hidden, student);
  HeadPlan teacher_plan = plan;
  teacher_plan.product = plan_for(teacher_hidden, theirs).product;
  teacher_plan.shape = theirs.shape;
  TeacherHead taught{.rows = tokens.rows_of(teacher_hidden.detach()),
                     .weight = theirs.weight.detach(),
                     .bias = theirs.bias.defined() ? theirs.bias.detach() : theirs.bias,
                     .plan = teacher_plan};
  return {.tokens = std::move(tokens), .plan = plan, .teacher = std::move(taught)};
}

at::Tensor linear_divergence(const at::Tensor& student_hidden,
                             const LinearHead& student,
                             const at::Tensor& teacher_hidden,
                             const LinearHead& teacher,
                             const Targets& targets,
                             const DivergenceOptions& options) {
  const auto pair = pair_heads(student_hidden, student, teacher_hidden, teacher, targets, options);
  const auto ours = first_rows(student, pair.teacher.weight.size(0));
  const auto values = LinearDivergence::apply(pair.tokens.rows_of(student_hidden),
                                              ours.weight,
                                              optional_bias(ours),
                                              pair.teacher,
                                              pair.plan,
                                              options);
  return pair.tokens.scatter(values);
}

}  // namespace reprise
