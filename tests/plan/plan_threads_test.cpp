// Plans and threads: a step is planned while other threads train, draw random numbers, allocate,
// and plan steps of their own.
#include "plan/chain.h"
#include "plan/trace/step_trace.h"
#include "support/bitwise.h"
#include "support/devices.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using namespace reprise::literals;

/// Runs `work` again and again on threads of its own, from construction to destruction.
class Busy {
 public:
  Busy(size_t threads, const std::function<void(size_t)>& work)
      : ready_(static_cast<ptrdiff_t>(threads)) {
    for (size_t i = 0; i < threads; ++i) {
      threads_.emplace_back([this, work, i] {
        bool is_ready = false;
        try {
          while (!is_over_) {
            work(i);
            ++rounds_;
            if (!std::exchange(is_ready, true)) {
              ready_.count_down();
            }
          }
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
          has_failed_ = true;
        }
        if (!is_ready) {
          ready_.count_down();
        }
      });
    }
    ready_.wait();
  }
  ~Busy() { stop(); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

  void stop() {
    is_over_ = true;
    for (auto& thread : std::exchange(threads_, {})) {
      thread.join();
    }
  }
  /// Returns when the threads have done `count` more rounds.
  void let_run(size_t count) const {
    const size_t end = rounds_ + count;
    while (rounds_ < end && !has_failed_) {
      std::this_thread::yield();
    }
  }

 private:
  std::latch ready_;
  std::atomic<bool> is_over_{false};
  std::atomic<size_t> rounds_{0};
  std::atomic<bool> has_failed_{false};
  std::vector<std::thread> threads_;
};

/// What other threads do: regions in forward and recompute, nodes, writes, allocations.
void train_something(size_t i) {
  const auto w = torch::full({64, 64}, 0.01 * static_cast<double>(i + 1)).requires_grad_();
  const auto buffer = torch::zeros({64});
  const auto fn = [w, buffer](const at::Tensor& h) {
    const auto y = torch::mm(h, w).tanh();
    auto written = buffer;
    written.add_(y.detach().sum(0));
    return torch::mm(y, w).exp();
  };
  auto h = checkpoint(CheckpointOptions{.name = "other"}, fn, torch::ones({64, 64}));
  h = checkpoint(CheckpointOptions{.name = "another"}, fn, h);
  h.sum().backward();
}

/// Allocates and frees tensors of the size that the chain has.
void allocate_something(size_t) {
  auto a = torch::empty({kSide, kSide});
  const auto b = torch::empty({3 * kSide, kSide});
  a = torch::empty({2 * kSide, kSide});
}

void expect_same_bytes(const planning::StepTrace& a, const planning::StepTrace& b) {
  ASSERT_EQ(a.regions.size(), b.regions.size());
  ASSERT_EQ(a.intervals.size(), b.intervals.size());
  EXPECT_EQ(a.storages.size(), b.storages.size());
  for (size_t i = 0; i < a.intervals.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(a.intervals[i].peak_bytes),
                static_cast<double>(b.intervals[i].peak_bytes),
                kScalars)
        << "interval " << i;
  }
  for (size_t i = 0; i < a.regions.size(); ++i) {
    EXPECT_EQ(a.regions[i].ops.size(), b.regions[i].ops.size());
    EXPECT_EQ(a.regions[i].log_bytes, b.regions[i].log_bytes);
  }
  EXPECT_NEAR(static_cast<double>(a.peak), static_cast<double>(b.peak), kScalars);
}

TEST(PlanThreads, OtherThreadsMayTrainWhileAStepIsPlanned) {
  const Chain chain(3);
  const auto expected = trace_of(chain);
  Busy others(3, train_something);
  for (int i = 0; i < 6; ++i) {
    expect_same_bytes(trace_of(chain), expected);
    others.let_run(1);
  }
}

TEST(PlanThreads, OtherThreadsMayAllocateWhileAStepIsPlanned) {
  const Chain chain(3);
  const auto expected = trace_of(chain);
  Busy others(3, allocate_something);
  for (int i = 0; i < 4; ++i) {
    const auto trace = planning::trace_step(
        [&] {
          others.let_run(2);
          chain.step([&] { others.let_run(2); });
        },
        c10::kCPU);
    expect_same_bytes(trace, expected);
  }
}

TEST(PlanThreads, OtherThreadsMayDrawWhileAStepIsPlanned) {
  const Chain chain(2, [](const at::Tensor& h, const std::vector<at::Tensor>& w) {
    return torch::dropout(residual_block(h, w), 0.2, true);
  });
  const auto step = [&] {
    auto h = chain.x;
    chain.run_from(0, h);
    chain.run_from(1, h);
    torch::dropout(std::exchange(h, {}), 0.1, true).square().mean().backward();
  };
  torch::manual_seed(3);
  std::vector<at::Tensor> drawn;
  {
    Busy other(1, [&](size_t) { drawn.push_back(torch::rand({16})); });
    for (int i = 0; i < 8; ++i) {
      planning::trace_step(step, c10::kCPU);
      other.let_run(1);
    }
  }
  torch::manual_seed(3);
  std::vector<at::Tensor> expected;
  for (size_t i = 0; i < drawn.size(); ++i) {
    expected.push_back(torch::rand({16}));
  }
  expect_bitwise_equal(drawn, expected);
}

TEST(PlanThreads, OtherThreadsMayDrawInRegionsWhileAStepIsPlanned) {
  const auto drawing = [](const at::Tensor& w) {
    const auto fn = [w](const at::Tensor& h) {
      return torch::mm(torch::dropout(torch::mm(h, w).tanh(), 0.2, true), w).exp();
    };
    auto h = checkpoint(CheckpointOptions{.name = "a"}, fn, torch::ones({64, 64}));
    checkpoint(CheckpointOptions{.name = "b"}, fn, h).sum().backward();
  };
  Busy others(2, [&](size_t) { drawing(torch::full({64, 64}, 0.01).requires_grad_()); });
  const auto w = torch::full({64, 64}, 0.01).requires_grad_();
  for (int i = 0; i < 20; ++i) {
    const auto widest = plan([&] { drawing(w); }, c10::kCPU, {.budget = 1_GiB});
    const PlanGuard use(widest);
    drawing(w);
    use.finish();
    others.let_run(1);
  }
}

TEST(PlanThreads, AStepThatSeedsTheGeneratorLeavesItAsItWas) {
  const Chain chain(1);
  torch::manual_seed(5);
  const auto expected = torch::rand({8});
  torch::manual_seed(5);
  planning::trace_step(
      [&] {
        torch::manual_seed(17);
        torch::rand({3});
        chain.step();
      },
      c10::kCPU);
  expect_bitwise_equal({torch::rand({8})}, {expected});
}

TEST(PlanThreads, OtherThreadsMayUseTheGpuWhileAStepIsPlanned) {
  REPRISE_REQUIRE_CUDA();
  const Chain chain(3, residual_block, c10::kCUDA);
  const auto expected = trace_of(chain);
  Busy others(2, [](size_t) {
    const Chain theirs(2, residual_block, c10::kCUDA);
    theirs.step();
  });
  for (int i = 0; i < 6; ++i) {
    expect_same_bytes(trace_of(chain), expected);
    const auto widest = plan([&] { chain.step(); }, c10::kCUDA, {.budget = 1_GiB});
    for (const auto& point : widest.curve()) {
      chain.clear_gradients();
      const PlanGuard use(widest.with_budget(point.peak_bytes));
      chain.step();
      use.finish();
    }
    chain.clear_gradients();
    others.let_run(1);
  }
}

TEST(PlanThreads, SeveralThreadsMayPlanAtOnce) {
  std::vector<std::unique_ptr<Chain>> chains;
  std::vector<planning::StepTrace> expected;
  for (size_t i = 0; i < 4; ++i) {
    chains.push_back(std::make_unique<Chain>(2 + i));
    expected.push_back(trace_of(*chains.back()));
  }
  std::latch start(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      for (int k = 0; k < 3; ++k) {
        expect_same_bytes(trace_of(*chains[i]), expected[i]);
        const auto planned = plan(
            [&] { chains[i]->step(); }, c10::kCPU, {.budget = 1_GiB, .allow_lossy = k % 2 > 0});
        EXPECT_EQ(planned.decisions().size(), 2 + i);
        EXPECT_FALSE(chains[i]->weights[0][0].grad().defined());
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

TEST(PlanThreads, PlansOfSeveralThreadsAreAppliedAtOnce) {
  const Chain reference(3);
  reference.step();
  const auto expected = reference.gradients();
  std::vector<std::thread> threads;
  std::vector<std::vector<at::Tensor>> found(4);
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Chain mine(3);
      mine.x = reference.x;
      for (size_t k = 0; k < 3; ++k) {
        for (size_t n = 0; n < 2; ++n) {
          mine.weights[k][n] = reference.weights[k][n].detach().clone().requires_grad_();
        }
      }
      const auto step = [&] { mine.step(); };
      const auto widest = plan(step, c10::kCPU, {.budget = 1_GiB});
      for (const auto& point : widest.curve()) {
        mine.clear_gradients();
        const PlanGuard use(widest.with_budget(point.peak_bytes));
        step();
        use.finish();
      }
      found[i] = mine.gradients();
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const auto& gradients : found) {
    expect_bitwise_equal(gradients, expected);
  }
}

// A draw that no operator of the region explains makes the recompute compare all values.
TEST(PlanThreads, BudgetsHoldWhileOtherThreadsDraw) {
  const Busy* others = nullptr;
  const Chain chain(3, [&others](const at::Tensor& h, const std::vector<at::Tensor>& weights) {
    const auto hidden = torch::tanh(torch::mm(h, weights[0]));
    if (others != nullptr) {
      others->let_run(2);
    }
    return h + torch::mm(hidden.t(), weights[1]);
  });
  const auto widest = plan([&] { chain.step(); }, c10::kCPU, {.budget = 1_GiB});
  const Busy drawing(1, [](size_t) { torch::rand({4}); });
  others = &drawing;
  for (const auto& point : widest.curve()) {
    chain.clear_gradients();
    const PlanGuard use(widest.with_budget(point.peak_bytes));
    chain.step();
    EXPECT_NO_THROW(use.finish());
  }
}

TEST(PlanThreads, ARegionThatOutlivesItsTraceIsRecomputedElsewhere) {
  const auto w = torch::randn({8, 8}).requires_grad_();
  at::Tensor left;
  const auto step = [&] {
    const auto y = checkpoint(
        CheckpointOptions{.name = "a"},
        [w](const at::Tensor& h) { return torch::mm(h, w).exp().sin(); },
        torch::ones({8, 8}));
    left = y.sum();
    y.square().sum().backward({}, /*retain_graph=*/true);
  };
  planning::trace_step(step, c10::kCPU);
  EXPECT_FALSE(w.grad().defined());
  std::thread([&] { left.backward(); }).join();
  const auto found = w.grad().clone();
  w.mutable_grad() = at::Tensor();
  torch::mm(torch::ones({8, 8}), w).exp().sin().sum().backward();
  expect_bitwise_equal({found}, {w.grad()});
}

TEST(PlanThreads, AStepThatFailsLeavesNothingBehind) {
  const Chain chain(2);
  const auto failing = [&] { chain.step([] { throw std::runtime_error("the step fails"); }); };
  EXPECT_THROW(planning::trace_step(failing, c10::kCPU), std::runtime_error);
  const auto trace = trace_of(chain);
  EXPECT_EQ(trace.regions.size(), 2U);
  EXPECT_FALSE(chain.weights[0][0].grad().defined());
}

TEST(PlanThreads, RegionsOnThreadsThatAStepStartsAreNotPlanned) {
  const Chain chain(2), other(1);
  const auto trace = planning::trace_step(
      [&] {
        std::thread([&] { other.step(); }).join();
        chain.step();
      },
      c10::kCPU);
  EXPECT_EQ(trace.regions.size(), 2U);
  EXPECT_TRUE(other.weights[0][0].grad().defined()) << "nobody undoes what other threads do";
}

}  // namespace
}  // namespace reprise::testing
