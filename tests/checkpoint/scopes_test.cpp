// What a program can know and set about the runs of a region: is_recomputing, the scopes of forward
// and recompute, and EarlyStopGuard.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using Events = std::vector<std::string>;

/// Notes when it begins and ends.
struct NotedScope {
  NotedScope(Events& all, std::string what) : events(all), name(std::move(what)) {
    events.push_back(name + " begins");
  }
  ~NotedScope() {
    events.push_back(name + " ends" +
                     (at::autocast::is_autocast_enabled(at::kCPU) ? " in autocast" : ""));
  }
  NotedScope(const NotedScope&) = delete;
  NotedScope& operator=(const NotedScope&) = delete;

  Events& events;
  std::string name;
};

CheckpointOptions noting(Events& events, CheckpointOptions options = {}) {
  options.forward_scope = [&events] { return std::make_shared<NotedScope>(events, "forward"); };
  options.recompute_scope = [&events] { return std::make_shared<NotedScope>(events, "recompute"); };
  return options;
}

TEST(IsRecomputing, TellsForwardFromRecompute) {
  for (const bool use_reentrant : {false, true}) {
    std::vector<bool> seen;
    const Fn fn = [&seen](at::Tensor h) {
      seen.push_back(is_recomputing());
      return h.sin().exp();
    };
    const auto y = checkpoint({.use_reentrant = use_reentrant}, fn, ramp_leaf({3}));
    EXPECT_FALSE(is_recomputing());
    y.register_hook([&seen](const at::Tensor&) { seen.push_back(is_recomputing()); });
    y.sum().backward();
    EXPECT_FALSE(is_recomputing());
    EXPECT_EQ(seen, (std::vector<bool>{false, false, true})) << use_reentrant;
  }
}

TEST(IsRecomputing, IsTrueInWhateverARecomputeCalls) {
  std::vector<bool> seen;
  const Fn inner = [&seen](at::Tensor h) {
    seen.push_back(is_recomputing());
    return h.tanh().exp();
  };
  const Fn outer = [inner](at::Tensor h) { return checkpoint(inner, h.sin()).cos(); };
  checkpoint(outer, ramp_leaf({3})).sum().backward();
  // Forward, then in the recompute of the outer region, then in its own.
  EXPECT_EQ(seen, (std::vector<bool>{false, true, true}));
}

TEST(IsRecomputing, IsFalseAfterARecomputeThatFailed) {
  bool fails = false;
  const Fn fn = [&fails](at::Tensor h) {
    h = h.sin();
    if (fails) {
      throw std::runtime_error("no more");
    }
    return h.exp();
  };
  const auto y = checkpoint(fn, ramp_leaf({3})).sum();
  fails = true;
  EXPECT_THROW(y.backward(), CheckpointError);
  EXPECT_FALSE(is_recomputing());
}

TEST(Scopes, LiveAsLongAsTheirRun) {
  for (const bool use_reentrant : {false, true}) {
    Events events;
    const Fn fn = [&events](at::Tensor h) {
      events.emplace_back("runs");
      return h.sin().exp() + 1;
    };
    const auto x = ramp_leaf({3});
    const auto y = checkpoint(noting(events, {.use_reentrant = use_reentrant}), fn, x).sum();
    EXPECT_EQ(events, (Events{"forward begins", "runs", "forward ends"}));
    events.clear();
    y.backward();  // which stops early
    EXPECT_EQ(events, (Events{"recompute begins", "runs", "recompute ends"}));
    EXPECT_TRUE(bitwise_equal(x.grad(), torch::autograd::grad({fn(x).sum()}, {x})[0]));
  }
}

TEST(Scopes, EndWithAnException) {
  for (const bool use_reentrant : {false, true}) {
    Events events;
    bool fails = true;
    const Fn fn = [&](at::Tensor h) {
      h = h.sin();
      if (fails) {
        throw std::runtime_error("no more");
      }
      return h.exp();
    };
    const auto options = noting(events, {.use_reentrant = use_reentrant});
    EXPECT_THROW(checkpoint(options, fn, ramp_leaf({3})), std::runtime_error);
    EXPECT_EQ(events, (Events{"forward begins", "forward ends"}));
    fails = false;
    const auto y = checkpoint(options, fn, ramp_leaf({3})).sum();
    events.clear();
    fails = true;
    EXPECT_THROW(y.backward(), CheckpointError);
    EXPECT_EQ(events, (Events{"recompute begins", "recompute ends"}));
  }
}

/// The object sees the thread's state as the callable does.
TEST(Scopes, EndBeforeTheCallersStateIsBack) {
  for (const bool use_reentrant : {false, true}) {
    Events events;
    at::Tensor y;
    {
      const AutocastScope autocast(at::kCPU);
      y = checkpoint(
          noting(events, {.use_reentrant = use_reentrant}),
          [](const at::Tensor& h) { return h.sin().exp(); },
          ramp_leaf({3}));
    }
    y.sum().backward();
    EXPECT_EQ(events,
              (Events{"forward begins",
                      "forward ends in autocast",
                      "recompute begins",
                      "recompute ends in autocast"}));
  }
}

TEST(Scopes, MayBeGuardsThatChangeWhatIsComputed) {
  const auto w = ramp_leaf({8, 8});
  const Fn fn = [w](at::Tensor h) { return torch::mm(torch::mm(h, w).tanh(), w); };
  const auto autocast = [] { return std::make_shared<AutocastScope>(at::kCPU); };
  const auto gradients = [&](const auto& run) {
    const auto x = ramp_leaf({4, 8});
    const auto y = run(x);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    return torch::autograd::grad({y.sum()}, {x, w});
  };
  const auto plain = gradients([&](const at::Tensor& x) {
    const AutocastScope scope(at::kCPU);
    return fn(x);
  });
  for (const auto check : {DeterminismCheck::Metadata, DeterminismCheck::Values}) {
    expect_bitwise_equal(
        plain, gradients([&](const at::Tensor& x) {
          return checkpoint(
              {.determinism_check = check, .forward_scope = autocast, .recompute_scope = autocast},
              fn,
              x);
        }));
  }
  // A guard in forward alone makes the recompute compute something else, which is noticed.
  const auto y = checkpoint({.forward_scope = autocast}, fn, ramp_leaf({4, 8})).sum();
  EXPECT_TRUE(contains(message_of<CheckpointError>([&] { y.backward(); }), "different work"));
}

/// What a scope does itself is no part of the region: it is neither saved nor rolled back.
TEST(Scopes, MayComputeAndCount) {
  const auto runs = torch::zeros({2}, at::kLong);
  const auto x = ramp_leaf({3});
  const auto counting = [&](int64_t index) {
    return [&, index]() -> std::shared_ptr<void> {
      runs[index] += 1;
      const auto saves = x.exp().sin();
      return nullptr;
    };
  };
  const Fn fn = [](at::Tensor h) { return h.tanh().exp(); };
  const CheckpointOptions options{.forward_scope = counting(0), .recompute_scope = counting(1)};
  const auto y = checkpoint(options, fn, x).sum();
  torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true);
  const auto gradient = torch::autograd::grad({y}, {x})[0];
  EXPECT_TRUE(bitwise_equal(gradient, torch::autograd::grad({fn(x).sum()}, {x})[0]));
  EXPECT_TRUE(torch::equal(runs, torch::tensor({1, 2})));
}

TEST(Scopes, OfNestedRegionsBelongToTheirRegions) {
  Events events;
  const Fn inner = [](at::Tensor h) { return h.tanh().exp(); };
  const Fn outer = [&](at::Tensor h) { return checkpoint(noting(events), inner, h.sin()).cos(); };
  checkpoint(outer, ramp_leaf({3})).sum().backward();
  EXPECT_EQ(events,
            (Events{"forward begins",
                    "forward ends",
                    "forward begins",  // the outer region's recompute runs the inner one's forward
                    "forward ends",
                    "recompute begins",
                    "recompute ends"}));
}

TEST(Scopes, ThatThrowAreErrorsOfTheRegion) {
  const auto throws = []() -> std::shared_ptr<void> { throw std::runtime_error("no scope"); };
  const Fn fn = [](at::Tensor h) { return h.tanh().exp(); };
  for (const bool use_reentrant : {false, true}) {
    const auto x = ramp_leaf({3});
    EXPECT_THROW(checkpoint({.use_reentrant = use_reentrant, .forward_scope = throws}, fn, x),
                 std::runtime_error);
    const auto y =
        checkpoint(
            {.use_reentrant = use_reentrant, .recompute_scope = throws, .name = "block"}, fn, x)
            .sum();
    const auto message = message_of<CheckpointError>([&] { y.backward(); });
    EXPECT_TRUE(contains(message, "region \"block\" threw: no scope")) << message;
    EXPECT_FALSE(is_recomputing());
    checkpoint(fn, x).sum().backward();
  }
}

TEST(Scopes, AreNotEnteredInNoGradMode) {
  Events events;
  const torch::NoGradGuard no_grad;
  checkpoint(
      noting(events), [](const at::Tensor& h) { return h.exp(); }, ramp_leaf({3}));
  EXPECT_EQ(events, Events{});
}

/// How often the last statement of a region runs.
class EarlyStopScope : public ::testing::Test {
 protected:
  size_t finished_ = 0;
  const Fn fn_ = [this](at::Tensor h) {
    h = h.sin();  // the last that saves
    h = h + 1;
    ++finished_;
    return h;
  };
};

TEST_F(EarlyStopScope, DecidesForRegionsThatBeginInIt) {
  at::Tensor y;
  {
    const EarlyStopGuard off(false);
    y = checkpoint(fn_, ramp_leaf({3})).sum();
  }
  y.backward();
  EXPECT_EQ(finished_, 2U);
  finished_ = 0;
  y = checkpoint(fn_, ramp_leaf({3})).sum();
  {
    const EarlyStopGuard off(false);
    y.backward();  // began before the guard
  }
  EXPECT_EQ(finished_, 1U);
}

TEST_F(EarlyStopScope, OverridesTheOptionsAndGuardsNest) {
  const EarlyStopGuard on(true);
  checkpoint({.early_stop = false}, fn_, ramp_leaf({3})).sum().backward();
  EXPECT_EQ(finished_, 1U);
  {
    const EarlyStopGuard off(false);
    finished_ = 0;
    checkpoint({.early_stop = true}, fn_, ramp_leaf({3})).sum().backward();
    EXPECT_EQ(finished_, 2U);
  }
  finished_ = 0;
  checkpoint({.early_stop = false}, fn_, ramp_leaf({3})).sum().backward();
  EXPECT_EQ(finished_, 1U);
}

TEST_F(EarlyStopScope, IsTheThreadsOwn) {
  const EarlyStopGuard off(false);
  std::thread([this] { checkpoint(fn_, ramp_leaf({3})).sum().backward(); }).join();
  EXPECT_EQ(finished_, 1U);
}

/// A reentrant region runs the regions inside it for the first time in its recompute.
TEST_F(EarlyStopScope, HoldsForRegionsInsideARecompute) {
  at::Tensor y;
  {
    const EarlyStopGuard off(false);
    y = checkpoint(
            {.use_reentrant = true},
            [fn = fn_](const at::Tensor& h) { return checkpoint(fn, h.cos()); },
            ramp_leaf({3}))
            .sum();
  }
  finished_ = 0;
  y.backward();
  EXPECT_EQ(finished_, 2U);  // the inner region's forward and its recompute
}

}  // namespace
}  // namespace reprise::testing
