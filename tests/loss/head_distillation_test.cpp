// linear_distillation against the two losses that it is made of, each with logits of its own, and
// against central differences.
#include "loss/head_case.h"
#include "loss/head_teacher.h"
#include "support/bitwise.h"
#include "support/numeric_gradient.h"
#include "support/tensors.h"

#include <reprise/loss/head.h>

#include <gtest/gtest.h>

#include <vector>

namespace reprise::testing {
namespace {

Distillation distil(const HeadCase& student,
                    const HeadCase& teacher,
                    const DistillationOptions& options = {}) {
  return linear_distillation(
      student.hidden, student.head(), teacher.hidden, teacher.head(), student.targets, options);
}

/// One after the other.
Distillation two_losses(const HeadCase& student,
                        const HeadCase& teacher,
                        const DistillationOptions& options) {
  const auto divergence = linear_divergence(student.hidden,
                                            student.head(),
                                            teacher.hidden,
                                            teacher.head(),
                                            student.targets,
                                            options.divergence)
                              .sum();
  const auto gold = linear_cross_entropy(student.hidden, student.head(), student.targets);
  return {.sum = divergence * options.coefficient + gold.sum * (1 - options.coefficient),
          .divergence = divergence,
          .cross_entropy = gold.sum,
          .entropy = gold.entropy,
          .correct = gold.correct,
          .tokens = gold.tokens};
}

void expect_equal_to_two_losses(const HeadCase& student, const HeadCase& teacher) {
  const bool is_double = student.hidden.scalar_type() == at::kDouble;
  for (const auto& divergence : divergences()) {
    for (const double coefficient : {0.0, 0.4, 1.0}) {
      DistillationOptions options{.divergence = divergence, .coefficient = coefficient};
      const auto expected = two_losses(student, teacher, options);
      const auto expected_gradients = gradients(expected.sum * 0.3, student.leaves());
      for (const int64_t chunk : chunk_sizes()) {
        SCOPED_TRACE(
            c10::str("beta ", divergence.beta, ", share ", coefficient, ", chunks of ", chunk));
        options.divergence.chunks.tokens = chunk;
        const auto ours = distil(student, teacher, options);
        expect_close({ours.sum, ours.divergence, ours.cross_entropy, ours.entropy},
                     {expected.sum, expected.divergence, expected.cross_entropy, expected.entropy},
                     is_double ? 1e-12 : 1e-6);
        EXPECT_TRUE(bitwise_equal(ours.correct, expected.correct));
        EXPECT_EQ(ours.tokens, expected.tokens);
        expect_close(gradients(ours.sum * 0.3, student.leaves()),
                     expected_gradients,
                     tolerance_of(student.hidden.scalar_type()));
      }
    }
  }
}

TEST(LinearDistillation, EqualsItsTwoLossesForEveryShareAndChunkSize) {
  for (const auto device : devices()) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      for (const bool has_bias : {false, true}) {
        const auto student = make_case({.has_bias = has_bias, .type = type, .device = device});
        expect_equal_to_two_losses(student, make_teacher(student, 13));
      }
    }
  }
}

TEST(LinearDistillation, TeachesTheCommonPartOfPaddedVocabulariesAndTokensOfTheWhole) {
  auto student = make_case({.type = at::kDouble});
  expect_equal_to_two_losses(student, make_teacher(student, 16));
  student.targets.clamp_max_(10);
  student.shape = {.scale = 1.5, .softcap = 2.0};
  auto teacher = make_teacher(student, 11);
  teacher.shape = {.scale = 0.5};
  expect_equal_to_two_losses(student, teacher);
}

TEST(LinearDistillation, HasTheGradientOfCentralDifferences) {
  const auto student =
      make_case({.rows = 1, .length = 4, .width = 3, .vocabulary = 5, .type = at::kDouble});
  const auto teacher = make_teacher(student, 5);
  for (auto divergence : divergences()) {
    divergence.chunks.tokens = 2;
    const auto loss = [&](const at::Tensor& hidden, const LinearHead& head) {
      return linear_distillation(hidden,
                                 head,
                                 teacher.hidden,
                                 teacher.head(),
                                 student.targets,
                                 {.divergence = divergence, .coefficient = 0.7})
          .sum;
    };
    const auto analytic = gradients(loss(student.hidden, student.head()), student.leaves());
    const auto of_hidden =
        numeric_gradient([&](at::Tensor x) { return loss(x, student.head()); }, student.hidden);
    const auto of_weight = numeric_gradient(
        [&](at::Tensor x) { return loss(student.hidden, {.weight = x, .bias = student.bias}); },
        student.weight);
    const auto of_bias = numeric_gradient(
        [&](at::Tensor x) { return loss(student.hidden, {.weight = student.weight, .bias = x}); },
        student.bias);
    expect_close(analytic, {of_hidden, of_weight, of_bias}, 1e-8);
  }
}

TEST(LinearDistillation, GivesEveryBackwardOfARetainedGraphItsOwnFactor) {
  const auto student = make_case();
  const auto loss = distil(student, make_teacher(student, 13)).sum;
  const auto backward = [&](double factor, bool retains) {
    return torch::autograd::grad({loss}, student.leaves(), {torch::tensor(factor)}, retains);
  };
  const auto first = backward(3, /*retains=*/true);
  const auto halves = backward(0.5, /*retains=*/true);
  const auto last = backward(3, /*retains=*/false);
  expect_bitwise_equal(last, first);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_LT(relative_error(halves[i] * 6, first[i]), 1e-6);
  }
}

TEST(LinearDistillation, IsTheSameWithoutGradients) {
  const auto student = make_case();
  const auto teacher = make_teacher(student, 13);
  for (const auto& divergence : divergences()) {
    const auto trained = distil(student, teacher, {.divergence = divergence});
    const torch::NoGradGuard no_grad;
    const auto evaluated = distil(student, teacher, {.divergence = divergence});
    EXPECT_TRUE(bitwise_equal(evaluated.sum, trained.sum.detach()));
    EXPECT_FALSE(evaluated.sum.requires_grad());
  }
}

TEST(LinearDistillation, CarriesGradientsInTheSumOnlyAndToTheStudentOnly) {
  const auto student = make_case();
  const auto teacher = make_teacher(student, 13);
  const auto result = distil(student, teacher);
  for (const auto& part :
       {result.divergence, result.cross_entropy, result.entropy, result.correct}) {
    EXPECT_FALSE(part.requires_grad());
  }
  for (const auto& gradient : gradients(result.sum, teacher.leaves())) {
    EXPECT_FALSE(gradient.defined());
  }
}

TEST(LinearDistillation, TrainsTheHiddenStatesAloneUnderAFrozenHead) {
  auto student = make_case();
  const auto teacher = make_teacher(student, 13);
  const auto all = gradients(distil(student, teacher).sum, student.leaves());
  student.weight.set_requires_grad(false);
  student.bias.set_requires_grad(false);
  distil(student, teacher).sum.backward();
  EXPECT_TRUE(bitwise_equal(student.hidden.grad(), all[0]));
  EXPECT_FALSE(student.weight.grad().defined() || student.bias.grad().defined());
}

TEST(LinearDistillation, IsZeroWithZeroGradientsWhereAllIsIgnored) {
  auto student = make_case();
  student.targets.fill_(kIgnoredLabel);
  const auto result = distil(student, make_teacher(student, 13));
  EXPECT_EQ(result.tokens, 0);
  EXPECT_TRUE(bitwise_equal(result.sum.detach(), torch::zeros({})));
  const auto found = gradients(result.sum, student.leaves());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(found[i], torch::zeros_like(student.leaves()[i])));
  }
}

TEST(LinearDistillation, RefusesSharesOutOfRangeTokensTheTeacherLacksAndSecondDerivatives) {
  const auto student = make_case();
  const auto teacher = make_teacher(student, 13);
  const auto message = [](const auto& run) { return message_of<c10::Error>(run); };
  EXPECT_TRUE(contains(message([&] { distil(student, teacher, {.coefficient = 1.1}); }),
                       "expected a coefficient of the divergence from 0 to 1, got 1.1"));
  EXPECT_TRUE(contains(message([&] { distil(student, make_teacher(student, 2)); }),
                       "expected targets from 0 to 1"));
  const auto loss = distil(student, teacher).sum;
  EXPECT_TRUE(contains(message([&] {
                         torch::autograd::grad(
                             {loss}, {student.hidden}, {}, true, /*create_graph=*/true);
                       }),
                       "differentiable once"));
}

}  // namespace
}  // namespace reprise::testing
