// Plans from a step that ran for its results, plans for steps that are only similar, and budgets
// that the allocator holds.
#include "plan/chain.h"
#include "support/bitwise.h"
#include "support/sanitizer.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <future>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using namespace reprise::literals;

/// As many rows as a step is called with, and as many blocks.
struct Rows {
  static constexpr int64_t kWidth = 256;
  std::vector<at::Tensor> weights;

  explicit Rows(size_t blocks) {
    for (size_t i = 0; i < blocks; ++i) {
      weights.push_back((torch::randn({kWidth, kWidth}) * 0.06).requires_grad_());
    }
  }

  void step(int64_t rows, std::optional<size_t> blocks = {}) const {
    auto h = torch::ones({rows, kWidth});
    for (size_t i = 0; i < blocks.value_or(weights.size()); ++i) {
      const auto block = [w = weights[i % weights.size()]](const at::Tensor& x) {
        return torch::dropout(torch::mm(torch::mm(x, w).tanh(), w), 0.1, true);
      };
      h = checkpoint(CheckpointOptions{.name = "block" + std::to_string(i)}, block, h);
    }
    std::exchange(h, {}).square().mean().backward();
  }

  /// Gradients and the generator after a plain step.
  std::vector<at::Tensor> state_after(const std::function<void()>& run) const {
    for (const auto& weight : weights) {
      weight.mutable_grad() = at::Tensor();
    }
    torch::manual_seed(0);
    run();
    std::vector<at::Tensor> state;
    for (const auto& weight : weights) {
      state.push_back(weight.grad().defined() ? weight.grad().clone() : at::Tensor());
    }
    state.push_back(torch::rand({4}));
    return state;
  }
};

MemoryPlan recorded(const std::function<void()>& step, const PlanOptions& options) {
  StepRecording recording(c10::kCPU);
  step();
  return recording.plan(options);
}

void run_within(const MemoryPlan& plan, const std::function<void()>& step) {
  const PlanGuard use(plan);
  step();
  use.finish();
}

class RecordedStep : public ::testing::Test {
 protected:
  void SetUp() override {
    track_cpu_memory();
    torch::manual_seed(0);
  }
};

TEST_F(RecordedStep, HasItsEffectsAndIsPlannedAsIfItWereTraced) {
  const Rows model(4);
  const auto step = [&] { model.step(512); };
  const auto traced = plan(step, c10::kCPU, {.budget = 1_GiB});
  const auto plain = model.state_after(step);
  std::optional<MemoryPlan> made;
  const auto state = model.state_after([&] { made = recorded(step, {.budget = 1_GiB}); });
  expect_bitwise_equal(state, plain);
  ASSERT_EQ(made->decisions().size(), 4);
  const auto expect_close = [](int64_t bytes, int64_t expected) {
    EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(expected), 64_KiB);
  };
  expect_close(made->curve().front().peak_bytes, traced.curve().front().peak_bytes);
  expect_close(made->curve().back().peak_bytes, traced.curve().back().peak_bytes);
}

TEST_F(RecordedStep, MayAccumulateIntoGradients) {
  const Rows model(4);
  const auto step = [&] { model.step(512); };
  const auto twice = model.state_after([&] {
    step();
    step();
  });
  std::optional<MemoryPlan> made;
  const auto state = model.state_after([&] {
    step();
    made = recorded(step, {.budget = 1_GiB});
  });
  expect_bitwise_equal(state, twice);
  const auto least = made->with_budget(made->curve().front().peak_bytes);
  const auto planned = model.state_after([&] {
    step();
    run_within(least, step);
  });
  expect_bitwise_equal(planned, twice);
}

TEST_F(RecordedStep, IsForgottenWithoutAPlan) {
  const Rows model(2);
  const auto step = [&] { model.step(64); };
  const auto plain = model.state_after(step);
  { const StepRecording before_it(c10::kCPU); }
  {
    const StepRecording in_forward(c10::kCPU);
    const auto h = checkpoint([w = model.weights[0]](const at::Tensor& x) { return x.mm(w); },
                              torch::ones({4, Rows::kWidth}));
  }
  expect_bitwise_equal(model.state_after(step), plain);
  std::optional<StepRecording> elsewhere(std::in_place, c10::kCPU);
  step();
  EXPECT_NO_THROW(elsewhere->plan({.budget = 1_GiB}));
  EXPECT_THROW(elsewhere->plan({.budget = 1_GiB}), c10::Error);
}

TEST_F(RecordedStep, MayBeginUnderAutocastAndEndAfterIt) {
  const Rows model(2);
  const auto forward = [&] {
    const AutocastScope autocast(c10::kCPU, at::kBFloat16);
    auto h = torch::ones({64, Rows::kWidth});
    for (const auto& weight : model.weights) {
      h = checkpoint([w = weight](const at::Tensor& x) { return torch::mm(x, w).tanh(); }, h);
    }
    return h.sum();
  };
  const auto plain = model.state_after([&] { forward().backward(); });
  const auto state = model.state_after([&] {
    std::optional<StepRecording> recording;
    at::Tensor loss;
    {
      const AutocastScope autocast(c10::kCPU, at::kBFloat16);
      recording.emplace(c10::kCPU);
      loss = forward();
    }
    loss.backward();
    recording->plan({.budget = 1_GiB});
  });
  expect_bitwise_equal(state, plain);
  EXPECT_EQ(torch::mm(torch::ones({2, 2}), torch::ones({2, 2})).scalar_type(), at::kFloat);
}

TEST_F(RecordedStep, IsNotBegunUnderAPlan) {
  const Rows model(2);
  const auto made = plan([&] { model.step(64); }, c10::kCPU, {.budget = 1_GiB});
  const PlanGuard use(made);
  EXPECT_THROW({ const StepRecording recording(c10::kCPU); }, c10::Error);
  EXPECT_NO_THROW(model.step(64));
}

TEST_F(RecordedStep, ErrorOfABudgetThatIsTooSmallNamesOneThatWorks) {
  const Rows model(6);
  const auto step = [&] { model.step(512); };
  int64_t least = 0;
  try {
    recorded(step, {.budget = 100_KiB, .is_enforced = true});
    FAIL() << "a budget of 100 KiB was planned";
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    const std::string before = "the least budget for this step is ";
    const auto at = message.find(before);
    ASSERT_NE(at, std::string::npos) << message;
    least = std::stoll(message.substr(at + before.size()));
  }
  const auto made = recorded(step, {.budget = least, .is_enforced = true});
  EXPECT_NO_THROW(run_within(made, step));
  EXPECT_LE(made.peak_bytes(), least);
}

class EnforcedBudget : public RecordedStep {};

TEST_F(EnforcedBudget, IsHeldByTheAllocatorAndMonotone) {
  if (REPRISE_UNDER_ASAN || REPRISE_UNDER_TSAN) {
    GTEST_SKIP() << "bytes are not those of malloc";
  }
  const Rows model(6);
  const auto step = [&] { model.step(512); };
  const auto plain = model.state_after(step);
  const auto widest = recorded(step, {.budget = 1_GiB, .is_enforced = true});
  const int64_t least = widest.curve().front().peak_bytes, most = widest.curve().back().peak_bytes;
  double before = std::numeric_limits<double>::infinity();
  for (int64_t eighth = 1; eighth <= 8; ++eighth) {
    const int64_t budget = least + (most - least) * eighth / 8 + 64_KiB;
    const auto made = widest.with_budget(budget);
    EXPECT_LE(made.extra_ms(), before);
    before = made.extra_ms();
    int64_t peak = 0;
    const auto state = model.state_after([&] {
      const PlanGuard use(made);
      step();
      use.finish();
      peak = use.peak_bytes();
    });
    expect_bitwise_equal(state, plain);
    EXPECT_LE(peak, budget);
    EXPECT_NEAR(static_cast<double>(peak),
                static_cast<double>(made.peak_bytes()),
                static_cast<double>(budget) / 50);
  }
}

TEST_F(EnforcedBudget, StopsAStepThatTakesMore) {
  if (REPRISE_UNDER_ASAN || REPRISE_UNDER_TSAN) {
    GTEST_SKIP() << "bytes are not those of malloc";
  }
  const Rows model(2);
  const auto step = [&] { model.step(512); };
  const auto widest = recorded(step, {.budget = 1_GiB, .is_enforced = true});
  const auto made = widest.with_budget(widest.curve().back().peak_bytes + 1_MiB);
  bool is_over = false;
  const PlanGuard use(made);
  EXPECT_THROW(
      {
        const auto more = torch::empty({16 << 20});
        is_over = true;
        step();
      },
      c10::OutOfMemoryError);
  EXPECT_FALSE(is_over);
}

TEST_F(EnforcedBudget, LeavesAReserveFree) {
  const Rows model(6);
  const auto step = [&] { model.step(512); };
  const auto widest = recorded(step, {.budget = 1_GiB, .is_enforced = true});
  const int64_t budget = widest.curve().back().peak_bytes + 1_MiB;
  const auto made = recorded(step, {.budget = budget, .is_enforced = true, .reserve = 2_MiB});
  EXPECT_LE(made.peak_bytes(), budget - 2_MiB);
  EXPECT_GT(made.extra_ms(), 0);
  const PlanGuard use(made);
  const auto more = torch::empty({(2 << 20) / 4});
  EXPECT_NO_THROW(step());
  EXPECT_NO_THROW(use.finish());
  EXPECT_THROW(plan(step, c10::kCPU, {.budget = budget, .reserve = 1}), c10::Error);
}

TEST_F(EnforcedBudget, CountsItsOwnThreadAlone) {
  const Rows model(2);
  const auto step = [&] { model.step(512); };
  const auto widest = recorded(step, {.budget = 1_GiB, .is_enforced = true});
  const auto made = widest.with_budget(widest.curve().back().peak_bytes + 1_MiB);
  const PlanGuard use(made);
  std::async(std::launch::async, [] { return torch::empty({16 << 20}).numel(); }).get();
  EXPECT_NO_THROW(step());
  EXPECT_NO_THROW(use.finish());
}

TEST_F(EnforcedBudget, HoldsOnTwoThreadsAtOnce) {
  const auto train = [](int64_t rows, bool& is_held) {
    const Rows model(3);
    const auto step = [&] { model.step(rows); };
    const auto made = recorded(step, {.budget = 1_GiB, .is_enforced = true});
    for (int i = 0; i < 5; ++i) {
      run_within(made, step);
    }
    is_held = true;
  };
  bool one = false, two = false;
  auto other = std::async(std::launch::async, [&] { train(128, one); });
  train(256, two);
  other.get();
  EXPECT_TRUE(one && two);
}

class SimilarStep : public RecordedStep {};

TEST_F(SimilarStep, OfOtherShapesDoesWhatWasPlannedByName) {
  const Rows model(4);
  const auto made = plan([&] { model.step(512); }, c10::kCPU, {.budget = 1_GiB});
  const auto tight =
      made.with_budget((made.curve().front().peak_bytes + made.curve().back().peak_bytes) / 2);
  const auto small = [&] { model.step(300); };
  EXPECT_THROW(run_within(tight, small), c10::Error) << "as planned, in order";
  const auto plain = model.state_after(small);
  const auto similar = tight.for_similar_steps();
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  expect_bitwise_equal(model.state_after([&] { run_within(similar, small); }), plain);
  size_t regions = 0;
  for (const auto& decision : tight.decisions()) {
    regions += decision.is_plain ? 0 : 1;
  }
  EXPECT_EQ(checkpoint_stats().total.entered, regions);
  record_checkpoint_stats(false);
}

TEST_F(SimilarStep, RecomputesRegionsThatWereNotPlanned) {
  const Rows model(2);
  const auto plain_plan =
      plan([&] { model.step(64); }, c10::kCPU, {.budget = 1_GiB}).for_similar_steps();
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  model.step(64);  // without a plan
  EXPECT_EQ(checkpoint_stats().total.entered, 2);
  reset_checkpoint_stats();
  const PlanGuard use(plain_plan);
  model.step(16, 5);
  use.finish();
  EXPECT_EQ(checkpoint_stats().total.entered, 3);
  EXPECT_EQ(checkpoint_stats().total.recomputed, 3);
  record_checkpoint_stats(false);
}

TEST_F(SimilarStep, MayLackRegions) {
  const Rows model(3);
  const auto made = plan([&] { model.step(64); }, c10::kCPU, {.budget = 1_GiB}).for_similar_steps();
  EXPECT_NO_THROW(run_within(made, [&] { model.step(64, 1); }));
}

TEST_F(SimilarStep, BetweenTwoShapesIsPlannedWithoutATrace) {
  if (REPRISE_UNDER_ASAN || REPRISE_UNDER_TSAN) {
    GTEST_SKIP() << "bytes are not those of malloc";
  }
  const Rows model(6);
  const PlanOptions options{.budget = 1_GiB, .is_enforced = true};
  const auto from = recorded([&] { model.step(256); }, options);
  const auto to = recorded([&] { model.step(1024); }, options);
  const int64_t budget = (to.curve().front().peak_bytes + to.curve().back().peak_bytes) / 2;
  const auto between = MemoryPlan::between(from, to.with_budget(budget), 1.0 / 3);
  ASSERT_TRUE(between);
  EXPECT_EQ(between->budget(), budget);
  EXPECT_GT(between->curve().back().peak_bytes, from.curve().back().peak_bytes);
  EXPECT_LT(between->curve().back().peak_bytes, to.curve().back().peak_bytes);
  EXPECT_NO_THROW(run_within(*between, [&] { model.step(512); }));
  const Rows other(3);
  EXPECT_FALSE(MemoryPlan::between(from, recorded([&] { other.step(1024); }, options), 0.5));
}

}  // namespace
}  // namespace reprise::testing
