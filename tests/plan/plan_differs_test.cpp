// A plan holds for the step that was planned: another batch, other operators or more bytes are
// errors that say what was planned and what came.
#include "plan/chain.h"
#include "support/bitwise.h"
#include "support/devices.h"
#include "support/sanitizer.h"
#include "support/zoo.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using namespace reprise::literals;

/// Two regions, a head, and everything that a caller may change between plan and step.
struct Changing {
  at::Tensor x = torch::randn({64, 128});
  at::Tensor w = (torch::randn({128, 128}) * 0.1).requires_grad_();
  std::function<at::Tensor(const at::Tensor&)> first = [w = w](const at::Tensor& h) {
    return torch::mm(torch::mm(h, w).tanh(), w);
  };
  std::function<at::Tensor(const at::Tensor&)> second = first;
  std::function<at::Tensor(const at::Tensor&)> head = [](const at::Tensor& h) { return h; };

  void step() const {
    auto h = checkpoint(CheckpointOptions{.name = "a"}, first, x);
    h = checkpoint(CheckpointOptions{.name = "b"}, second, h);
    head(std::exchange(h, {})).square().mean().backward();
  }
  MemoryPlan widest() const {
    return plan([this] { step(); }, c10::kCPU, {.budget = 1_GiB});
  }
  void run(const MemoryPlan& plan) const {
    const PlanGuard use(plan);
    step();
    use.finish();
  }
};

/// The plan with every region plain, and those that recompute: all of the curve, and full.
std::vector<MemoryPlan> plans_of(const MemoryPlan& widest) {
  std::vector<MemoryPlan> plans;
  for (const auto& point : widest.curve()) {
    plans.push_back(widest.with_budget(point.peak_bytes));
  }
  auto decisions = widest.decisions();
  for (auto& decision : decisions) {
    decision.is_plain = false;
    decision.ops = {};
  }
  plans.push_back(MemoryPlan::of(decisions, 1_GiB, 0));
  for (auto& decision : decisions) {
    decision.ops = {{.name = "aten::mm"}};
  }
  plans.push_back(MemoryPlan::of(decisions, 1_GiB, 0));
  return plans;
}

/// Every plan refuses the changed step with these words, and accepts the unchanged one.
void expect_refused(const std::function<void(Changing&)>& change,
                    const std::vector<std::string>& words) {
  Changing step;
  for (const auto& plan : plans_of(step.widest())) {
    step.run(plan);
    Changing other = step;
    change(other);
    const auto message = message_of<c10::Error>([&] { other.run(plan); });
    for (const auto& word : words) {
      EXPECT_TRUE(contains(message, word)) << message << "\n" << plan.describe();
    }
    step.run(plan);
  }
}

TEST(PlannedSteps, AreRefusedWithAnotherBatch) {
  expect_refused(
      [](Changing& step) {
        step.x = torch::randn({256, 128});
      },
      {"[plan] region \"a\" was planned with the arguments Float [64, 128] and came "
       "with Float [256, 128]",
       "plan again"});
  expect_refused([](Changing& step) { step.x = torch::randn({63, 128}); }, {"Float [63, 128]"});
  expect_refused(
      [](Changing& step) {
        step.x = step.x.to(c10::kDouble);
        step.first = [](const at::Tensor& h) { return h; };
      },
      {"came with Double [64, 128]"});
}

TEST(PlannedSteps, AreRefusedWithOtherOperators) {
  expect_refused(
      [](Changing& step) {
        step.second = [w = step.w](const at::Tensor& h) {
          return torch::mm(torch::mm(h, w).tanh().exp(), w);
        };
      },
      {"region \"b\" was planned with", "tensors saved for backward and came with"});
  expect_refused(
      [](Changing& step) {
        step.first = [w = step.w](const at::Tensor& h) { return torch::mm(h, w).tanh(); };
      },
      {"region \"a\" was planned with"});
}

TEST(PlannedSteps, AreRefusedWithOtherTensorsInside) {
  Changing step;
  auto decisions = step.widest().decisions();
  for (auto& decision : decisions) {
    decision.is_plain = false;
  }
  const auto full = MemoryPlan::of(decisions, 1_GiB, 0);
  step.run(full);
  const auto wide = (torch::randn({128, 512}) * 0.1).requires_grad_();
  const auto back = (torch::randn({512, 128}) * 0.1).requires_grad_();
  step.second = [wide, back](const at::Tensor& h) {
    return torch::mm(torch::mm(h, wide).tanh(), back);
  };
  const auto message = message_of<c10::Error>([&] { step.run(full); });
  EXPECT_TRUE(contains(message,
                       "region \"b\" was planned with saved tensor #0 of Float [128, 128] and came "
                       "with Float [128, 512]"))
      << message;
}

TEST(PlannedSteps, AreRefusedWithMoreOperatorsUnderAPolicy) {
  Changing step;
  auto decisions = step.widest().decisions();
  for (auto& decision : decisions) {
    decision.is_plain = false;
    decision.ops = {{.name = "aten::tanh"}};
  }
  const auto kept = MemoryPlan::of(decisions, 1_GiB, 0);
  step.run(kept);
  step.first = [w = step.w](const at::Tensor& h) {
    return torch::mm(torch::mm(h, w).neg().neg().tanh(), w);  // these save nothing
  };
  const auto message = message_of<c10::Error>([&] { step.run(kept); });
  EXPECT_TRUE(contains(message, "region \"a\" was planned with 3 operators and came with 5"))
      << message;
}

TEST(PlannedSteps, AreComparedInsideJoinedRegionsToo) {
  Chain chain(3);
  auto decisions = plan([&] { chain.step(); }, c10::kCPU, {.budget = 1_GiB}).decisions();
  for (const bool is_plain : {false, true}) {
    for (auto& decision : decisions) {
      decision.is_plain = is_plain;
      decision.joined = 0;
    }
    decisions[0].joined = 2;
    const auto joined = MemoryPlan::of(decisions, 1_GiB, 0);
    const auto run = [&] {
      const PlanGuard use(joined);
      chain.step();
      use.finish();
    };
    run();
    chain.blocks[1] = [](const at::Tensor& h, const std::vector<at::Tensor>& w) {
      return residual_block(h, w).exp();
    };
    auto message = message_of<c10::Error>(run);
    EXPECT_TRUE(contains(message, "region \"block1\" was planned with 5 tensors")) << message;
    chain.blocks[1] = residual_block;
    run();
    const auto x = std::exchange(chain.x, torch::randn({kSide / 2, kSide}));
    message = message_of<c10::Error>(run);
    EXPECT_TRUE(contains(message, "\"block0\" was planned with the arguments Float [512, 512]"))
        << message;
    chain.x = x;
  }
}

TEST(PlannedSteps, WithoutASignatureAreNotCompared) {
  Changing step;
  auto decisions = step.widest().decisions();
  for (auto& decision : decisions) {
    EXPECT_EQ(decision.signature->inputs.size(), 1U);
    decision.signature.reset();
  }
  step.x = torch::randn({16, 128});
  step.run(MemoryPlan::of(decisions, 1_GiB, 0));
}

TEST(PlannedSteps, OfTheZooAreRecognised) {
  for (const auto& entry : zoo()) {
    torch::manual_seed(7);
    const auto model = entry.make();
    const auto x = model->input();
    const auto step = [&] { model->loss(x, with({.name = "region"})).backward(); };
    const auto widest = plan(step, c10::kCPU, {.budget = 1_GiB});
    auto full = widest.decisions();
    for (auto& decision : full) {
      decision.is_plain = false;
      decision.ops = {};
    }
    for (const auto& plan : {widest,
                             widest.with_budget(widest.curve().front().peak_bytes),
                             MemoryPlan::of(full, 1_GiB, 0)}) {
      model->zero_grad(/*set_to_none=*/true);
      const PlanGuard use(plan);
      step();
      EXPECT_NO_THROW(use.finish()) << entry.name;
    }
  }
}

TEST(PlannedSteps, WithRegionsInsideAreRecognised) {
  const Chain chain(3, [](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    const auto inner = [w](const at::Tensor& y) { return torch::mm(y, w[0]).tanh().sigmoid(); };
    auto y = checkpoint(CheckpointOptions{.name = "inner"}, inner, torch::mm(h, w[1]).tanh());
    return h + torch::dropout(y * 2, 0.1, true).exp();
  });
  const auto step = [&] { chain.step(); };
  const auto widest = plan(step, c10::kCPU, {.budget = 1_GiB});
  for (const auto& point : widest.curve()) {
    chain.clear_gradients();
    const PlanGuard use(widest.with_budget(point.peak_bytes));
    step();
    use.finish();
  }
}

TEST(PlannedSteps, ThatTakeMoreThanTheirBudgetOutsideOfRegionsAreRefused) {
  Changing step;
  const auto plan = step.widest().with_budget(step.widest().curve().back().peak_bytes);
  step.run(plan);
  step.head = [](const at::Tensor& h) { return h.repeat({64, 1}); };
  const auto message = message_of<c10::Error>([&] { step.run(plan); });
  EXPECT_TRUE(contains(message, "its budget is " + std::to_string(plan.budget()))) << message;
  EXPECT_TRUE(contains(message, "[plan] the step took ")) << message;
  EXPECT_TRUE(contains(message, " bytes of activations")) << message;
}

TEST(PlannedSteps, HoldTheirBudgetsOnTheGpu) {
  REPRISE_REQUIRE_CUDA();
  const Chain chain(4, residual_block, c10::kCUDA);
  const auto step = [&] { chain.step(); };
  for (const bool counts_gradients : {false, true}) {
    const auto widest =
        plan(step, c10::kCUDA, {.budget = 1_GiB, .counts_gradients = counts_gradients});
    for (const auto& point : widest.curve()) {
      chain.clear_gradients();
      const PlanGuard use(widest.with_budget(point.peak_bytes));
      step();
      use.finish();
    }
    chain.clear_gradients();
    const PlanGuard use(widest.with_budget(widest.curve().front().peak_bytes));
    chain.step([&] { torch::empty({64 * kSide, kSide}, chain.x.options()); });
    EXPECT_TRUE(contains(message_of<c10::Error>([&] { use.finish(); }), "its budget is"));
    chain.clear_gradients();
  }
}

TEST(PlannedSteps, AreMeasuredWithoutOptimizersOtherThreadsAndGradients) {
  Changing step;
  const auto widest = step.widest();
  const auto plan = widest.with_budget(widest.curve().front().peak_bytes);
  at::Tensor theirs, state;
  step.w.mutable_grad() = at::Tensor();
  {
    const PlanGuard use(plan);
    std::thread([&] { theirs = torch::empty({4096, 512}); }).join();
    step.step();
    state = torch::zeros({4096, 512});  // an optimizer's, made in its first update
    use.finish();
  }
  const auto with_gradients =
      reprise::plan([&] { step.step(); }, c10::kCPU, {.budget = 1_GiB, .counts_gradients = true});
  for (const auto& point : with_gradients.curve()) {
    step.w.mutable_grad() = at::Tensor();
    step.run(with_gradients.with_budget(point.peak_bytes));
  }
}

TEST(PlannedSteps, GoOnAfterAGuardIsDestroyedOnAnotherThread) {
  if (REPRISE_UNDER_ASAN) {
    GTEST_SKIP() << "what only the first thread could free is never freed";
  }
  Changing step;
  const auto widest = step.widest();
  auto use = std::make_unique<PlanGuard>(widest);
  std::thread([&] { use.reset(); }).join();
  step.step();  // no plan is applied
  step.step();
  step.run(widest);
}

}  // namespace
}  // namespace reprise::testing
