// What the chunked head holds, asserted in bytes, and that its results do not depend on how the
// program around it saves memory.
#include "loss/head_case.h"
#include "support/bitwise.h"
#include "support/tensors.h"

#include <reprise/loss/head.h>
#include <reprise/memory.h>
#include <reprise/reprise.h>

#include <gtest/gtest.h>

#include <functional>

namespace reprise::testing {
namespace {

constexpr int64_t kTokens = 1024, kWidth = 16, kVocabulary = 2048, kChunk = 64;
constexpr int64_t kFloatBytes = 4;
constexpr int64_t kChunkBytes = kChunk * kVocabulary * kFloatBytes;
constexpr int64_t kHiddenBytes = kTokens * kWidth * kFloatBytes;
constexpr int64_t kHeadBytes = kVocabulary * kWidth * kFloatBytes;
/// A few numbers a token, and what malloc rounds up.
constexpr int64_t kSmall = 32 * kTokens * kFloatBytes;

using Loss = std::function<at::Tensor(const HeadCase&)>;

at::Tensor logprobs(const HeadCase& c) {
  return token_logprobs(c.hidden, c.head(), c.targets, {.chunks = {.tokens = kChunk}})
      .logprobs.sum();
}

at::Tensor logprobs_and_entropy(const HeadCase& c) {
  const auto values = token_logprobs(
      c.hidden, c.head(), c.targets, {.entropy = true, .chunks = {.tokens = kChunk}});
  return values.logprobs.sum() + values.entropy.sum();
}

at::Tensor cross_entropy(const HeadCase& c) {
  return linear_cross_entropy(
             c.hidden, c.head(), c.targets, TokenWeighting::None, {.tokens = kChunk})
      .sum;
}

at::Tensor divergence(const HeadCase& c) {
  return linear_divergence(c.hidden,
                           c.head(),
                           c.hidden.detach().flip({1}),
                           c.head(),
                           c.targets,
                           {.kind = DivergenceOptions::Kind::Jensen, .chunks = {.tokens = kChunk}})
      .sum();
}

at::Tensor distillation(const HeadCase& c) {
  const DistillationOptions options{
      .divergence = {.kind = DivergenceOptions::Kind::Jensen, .chunks = {.tokens = kChunk}}};
  return linear_distillation(
             c.hidden, c.head(), c.hidden.detach().flip({1}), c.head(), c.targets, options)
      .sum;
}

HeadCase large_case(int64_t width = kWidth, int64_t tokens = kTokens) {
  auto c = make_case(
      {.rows = 1, .length = tokens, .width = width, .vocabulary = kVocabulary, .has_bias = false});
  c.targets.clamp_min_(0);  // all count
  return c;
}

int64_t peak_of(const Loss& loss, const HeadCase& c) {
  const PeakTracker tracker(c10::kCPU);
  loss(c).backward();
  return tracker.extra();
}

TEST(HeadMemory, IsAFewChunksAndNeverAllLogits) {
  struct Bound {
    const char* name;
    Loss loss;
    int64_t chunks;
  };
  for (const auto& [name, loss, chunks] : {Bound{"log-probabilities", logprobs, 1},
                                           Bound{"with entropy", logprobs_and_entropy, 2},
                                           Bound{"cross entropy", cross_entropy, 2},
                                           Bound{"divergence", divergence, 4},
                                           Bound{"distillation", distillation, 5}}) {
    // Gradients, and once more what they are made from.
    const int64_t results = 2 * (kHiddenBytes + kHeadBytes);
    EXPECT_LT(peak_of(loss, large_case()), chunks * kChunkBytes + results + kSmall) << name;
    EXPECT_GE(peak_of(loss, large_case()), chunks * kChunkBytes) << name;
  }
  static_assert(5 * kChunkBytes + 2 * (kHiddenBytes + kHeadBytes) + kSmall <
                kTokens * kVocabulary * kFloatBytes / 2);
}

TEST(HeadMemory, HoldsNoGradientOfAFrozenHead) {
  constexpr int64_t kWide = 512;
  auto c = large_case(kWide);
  c.weight.set_requires_grad(false);
  for (const auto& loss : {logprobs, cross_entropy}) {
    c.hidden.mutable_grad() = at::Tensor();
    EXPECT_LT(peak_of(loss, c), 2 * kChunkBytes + 2 * kTokens * kWide * kFloatBytes + kSmall);
  }
  c.weight.set_requires_grad(true);
  EXPECT_GT(peak_of(cross_entropy, c), kVocabulary * kWide * kFloatBytes);
}

// A head so wide that its gradient is what counts.
TEST(HeadMemory, HoldsOneGradientOfTheHead) {
  constexpr int64_t kWide = 2048, kFewTokens = 32;
  constexpr int64_t kGradient = kVocabulary * kWide * kFloatBytes;
  static_assert(5 * kFewTokens * (kVocabulary + kWide) * kFloatBytes < 3 * kGradient / 10);
  for (const auto& loss : {logprobs, cross_entropy, divergence, distillation}) {
    const int64_t peak = peak_of(loss, large_case(kWide, kFewTokens));
    EXPECT_GT(peak, kGradient);
    EXPECT_LT(peak, 13 * kGradient / 10);
  }
}

TEST(HeadMemory, HoldsTwoGradientsOfTheHeadWhereABackwardRetainsTheGraph) {
  constexpr int64_t kWide = 2048;
  const auto c = large_case(kWide, /*tokens=*/32);
  const PeakTracker tracker(c10::kCPU);
  cross_entropy(c).backward({}, /*retain_graph=*/true);
  EXPECT_GT(tracker.extra(), 2 * kVocabulary * kWide * kFloatBytes);
}

TEST(HeadMemory, IsNotSpentOnIgnoredTokens) {
  auto c = large_case();
  c.targets.slice(1, 8).fill_(kIgnoredLabel);
  for (const auto& loss :
       {logprobs, logprobs_and_entropy, cross_entropy, divergence, distillation}) {
    EXPECT_LT(peak_of(loss, c),
              5 * 8 * kVocabulary * kFloatBytes + 3 * (kHiddenBytes + kHeadBytes) + kSmall);
  }
}

TEST(HeadMemory, OfAForwardWithoutGradientsIsTheChunksAlone) {
  const auto c = large_case();
  const torch::NoGradGuard no_grad;
  for (const auto& loss : {logprobs, cross_entropy}) {
    const PeakTracker tracker(c10::kCPU);
    loss(c);
    EXPECT_LT(tracker.extra(), 2 * kChunkBytes + kSmall);
  }
  const PeakTracker tracker(c10::kCPU);
  distillation(c);
  EXPECT_LT(tracker.extra(), 5 * kChunkBytes + kHiddenBytes + kSmall);
}

struct Step {
  at::Tensor loss;
  std::vector<at::Tensor> gradients;
};

/// One step, with the head and what feeds it in a region if there are options for one.
Step step(const Loss& loss, const CheckpointOptions* region) {
  const auto c = make_case({.rows = 4, .length = 40});
  const auto run = [loss, targets = c.targets](at::Tensor x, at::Tensor weight, at::Tensor bias) {
    return loss({.hidden = x.tanh() * x, .weight = weight, .bias = bias, .targets = targets});
  };
  const auto value = region == nullptr ? run(c.hidden, c.weight, c.bias)
                                       : checkpoint(*region, run, c.hidden, c.weight, c.bias);
  value.backward();
  return {value.detach(), {c.hidden.grad(), c.weight.grad(), c.bias.grad()}};
}

TEST(HeadResults, AreTheSameBitsTwiceAndUnderEveryMemoryPolicy) {
  const std::vector<CheckpointOptions> regions{
      {}, {.policy = policy::save_ops({"aten::tanh"})}, {.use_reentrant = true}};
  for (const auto& loss :
       {logprobs, logprobs_and_entropy, cross_entropy, divergence, distillation}) {
    const auto plain = step(loss, nullptr);
    const auto again = step(loss, nullptr);
    EXPECT_TRUE(bitwise_equal(again.loss, plain.loss));
    expect_bitwise_equal(again.gradients, plain.gradients);
    for (const auto& region : regions) {
      const auto checkpointed = step(loss, &region);
      EXPECT_TRUE(bitwise_equal(checkpointed.loss, plain.loss));
      expect_bitwise_equal(checkpointed.gradients, plain.gradients);
    }
  }
}

// Gradients that forward made are scaled in place, and here forward runs once more for each.
TEST(HeadResults, AreTheSameBitsInASecondBackwardThroughARegion) {
  for (const auto& loss : {cross_entropy, distillation}) {
    const auto c = make_case({.rows = 4, .length = 40});
    const auto run = [loss, targets = c.targets](at::Tensor x, at::Tensor weight) {
      return loss({.hidden = x.tanh(), .weight = weight, .bias = {}, .targets = targets});
    };
    const auto value = checkpoint(CheckpointOptions{}, run, c.hidden, c.weight) * 3;
    const auto first = torch::autograd::grad({value}, {c.hidden, c.weight}, {}, /*retain=*/true);
    expect_bitwise_equal(torch::autograd::grad({value}, {c.hidden, c.weight}), first);
  }
}

}  // namespace
}  // namespace reprise::testing
