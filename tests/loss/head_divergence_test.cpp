// linear_divergence against the divergences of whole logits, and against central differences.
#include "loss/head_case.h"
#include "loss/head_teacher.h"
#include "support/bitwise.h"
#include "support/numeric_gradient.h"
#include "support/tensors.h"

#include <reprise/loss/head.h>

#include <gtest/gtest.h>

#include <cmath>

namespace reprise::testing {
namespace {

using Kind = DivergenceOptions::Kind;

at::Tensor kl(const at::Tensor& log_p, const at::Tensor& log_q) {
  return (log_p.exp() * (log_p - log_q)).sum(-1);
}

at::Tensor plain_divergence(const at::Tensor& student_logits,
                            const at::Tensor& teacher_logits,
                            const at::Tensor& counts,
                            const DivergenceOptions& options) {
  const int64_t common = std::min(student_logits.size(-1), teacher_logits.size(-1));
  const auto logp = [&](const at::Tensor& logits) {
    return (logits.slice(-1, 0, common) / options.temperature).log_softmax(-1);
  };
  const auto s = logp(student_logits), t = logp(teacher_logits).detach();
  const auto mask = counts.to(s.scalar_type());
  if (options.kind == Kind::CrossEntropy) {
    return -(t.exp() * s).sum(-1) * mask;
  }
  const double beta = options.beta;
  if (beta == 0 || beta == 1) {
    return (beta == 0 ? kl(t, s) : kl(s, t)) * mask;
  }
  const auto m = ((1 - beta) * s.exp() + beta * t.exp()).log();
  return (beta * kl(t, m) + (1 - beta) * kl(s, m)) * mask;
}

void expect_plain_divergences(const HeadCase& student, const HeadCase& teacher) {
  const auto type = student.hidden.scalar_type();
  const auto weights = token_weights(student.targets, -1, 2);
  for (auto options : divergences()) {
    const auto expected =
        plain_divergence(student.logits(), teacher.logits(), student.counts(), options);
    const auto expected_gradients = gradients((expected * weights).sum(), student.leaves());
    for (const int64_t chunk : chunk_sizes()) {
      SCOPED_TRACE(c10::str(type, " beta ", options.beta, ", chunks of ", chunk));
      options.chunks.tokens = chunk;
      const auto ours = linear_divergence(
          student.hidden, student.head(), teacher.hidden, teacher.head(), student.targets, options);
      expect_close({ours}, {expected}, tolerance_of(type));
      expect_close(gradients((ours * weights).sum(), student.leaves()),
                   expected_gradients,
                   tolerance_of(type));
    }
  }
}

TEST(LinearDivergence, EqualsThatOfWholeLogitsForEveryChunkSize) {
  for (const auto device : devices()) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      for (const bool has_bias : {false, true}) {
        const auto student = make_case({.has_bias = has_bias, .type = type, .device = device});
        expect_plain_divergences(student, make_teacher(student, 13));
      }
    }
  }
}

TEST(LinearDivergence, ComparesTheCommonPartOfPaddedVocabularies) {
  const auto student = make_case({.type = at::kDouble});
  expect_plain_divergences(student, make_teacher(student, 16));
  // Here the student is padded: its padding has gradients of zero.
  auto teacher = make_teacher(student, 11);
  teacher.shape = {.scale = 0.7, .softcap = 3.0};
  const auto targets = student.targets.clamp_max(10);
  auto padded = student;
  padded.shape = {.scale = 1.5, .softcap = 2.0};
  padded.targets = teacher.targets = targets;
  expect_plain_divergences(padded, teacher);
}

TEST(LinearDivergence, HasTheGradientOfCentralDifferences) {
  const auto student =
      make_case({.rows = 1, .length = 4, .width = 3, .vocabulary = 5, .type = at::kDouble});
  const auto teacher =
      make_case({.rows = 1, .length = 4, .width = 2, .vocabulary = 5, .type = at::kDouble});
  for (auto options : divergences()) {
    options.chunks.tokens = 2;
    const auto loss = [&](const at::Tensor& hidden, const at::Tensor& weight) {
      return linear_divergence(hidden,
                               {.weight = weight},
                               teacher.hidden,
                               teacher.head(),
                               student.targets,
                               options)
          .sum();
    };
    const auto analytic =
        gradients(loss(student.hidden, student.weight), {student.hidden, student.weight});
    const auto of_hidden =
        numeric_gradient([&](at::Tensor x) { return loss(x, student.weight); }, student.hidden);
    const auto of_weight =
        numeric_gradient([&](at::Tensor x) { return loss(student.hidden, x); }, student.weight);
    expect_close(analytic, {of_hidden, of_weight}, 1e-8);
  }
}

TEST(LinearDivergence, OfAModelFromItselfIsZeroWithZeroGradients) {
  const auto c = make_case({.type = at::kDouble});
  for (const double beta : {0.0, 0.5, 1.0}) {
    const auto values = linear_divergence(
        c.hidden, c.head(), c.hidden, c.head(), c.targets, {.kind = Kind::Jensen, .beta = beta});
    EXPECT_LT(values.abs().max().item<double>(), 1e-14);
    for (const auto& gradient : gradients(values.sum(), c.leaves())) {
      EXPECT_LT(gradient.abs().max().item<double>(), 1e-14);
    }
  }
}

TEST(LinearDivergence, ReachesTheStudentOnly) {
  const auto student = make_case();
  const auto teacher = make_teacher(student, 13);
  const auto values = linear_divergence(
      student.hidden, student.head(), teacher.hidden, teacher.head(), student.targets);
  for (const auto& gradient : gradients(values.sum(), teacher.leaves())) {
    EXPECT_FALSE(gradient.defined());
  }
}

TEST(LinearDivergence, TakesATeacherOfAnotherType) {
  const auto student = make_case({.type = at::kDouble});
  auto teacher = make_teacher(student, 13);
  const auto expected = linear_divergence(
      student.hidden, student.head(), teacher.hidden, teacher.head(), student.targets);
  const LinearHead narrow{.weight = teacher.weight.to(at::kFloat),
                          .bias = teacher.bias.to(at::kFloat)};
  const auto ours = linear_divergence(
      student.hidden, student.head(), teacher.hidden.to(at::kFloat), narrow, student.targets);
  EXPECT_EQ(ours.scalar_type(), at::kDouble);
  EXPECT_LT(relative_error(ours, expected), 1e-6);
  EXPECT_LT(relative_error(gradients(ours.sum(), {student.hidden})[0],
                           gradients(expected.sum(), {student.hidden})[0]),
            5e-6);
}

TEST(LinearDivergence, IsZeroWithZeroGradientsWhereAllIsIgnored) {
  auto c = make_case();
  c.targets.fill_(kIgnoredLabel);
  const auto values = linear_divergence(c.hidden, c.head(), c.hidden, c.head(), c.targets);
  EXPECT_TRUE(bitwise_equal(values.detach(), torch::zeros(c.targets.sizes())));
  const auto found = gradients(values.sum(), c.leaves());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(found[i], torch::zeros_like(c.leaves()[i])));
  }
}

TEST(LinearDivergence, RefusesABetaOutOfRangeAndSecondDerivatives) {
  const auto c = make_case();
  const auto run = [&](double beta) {
    return linear_divergence(
        c.hidden, c.head(), c.hidden, c.head(), c.targets, {.kind = Kind::Jensen, .beta = beta});
  };
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { run(1.1); }), "expected a beta from 0 to 1"));
  const auto loss = run(0.5).sum();
  EXPECT_TRUE(contains(message_of<c10::Error>([&] {
                         torch::autograd::grad({loss}, {c.hidden}, {}, true, /*create_graph=*/true);
                       }),
                       "differentiable once"));
}

}  // namespace
}  // namespace reprise::testing
