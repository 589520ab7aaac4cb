// Buffers that a region writes end up as in a plain run, and recompute sees them as forward saw
// them.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"
#include "support/zoo.h"

#include <reprise/memory.h>
#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

/// Every way to run a region whose result must be that of a plain call.
std::vector<std::pair<const char*, RegionRunner>> ways() {
  const auto nested = [](auto fn, at::Tensor x) {
    return checkpoint([fn](at::Tensor h) { return checkpoint(fn, h); }, x);
  };
  const auto keep_sigmoid = policy::save_ops({"aten::sigmoid"});
  return {{"full", with({})},
          {"without early stop", with({.early_stop = false})},
          {"values", with({.determinism_check = DeterminismCheck::Values})},
          {"policy", with({.policy = keep_sigmoid})},
          {"reentrant", with({.use_reentrant = true})},
          {"nested", nested}};
}

const RegionRunner kPlain = [](auto fn, at::Tensor x) { return fn(x); };

/// Compares what `run` returns for a plain call with every other way.
void expect_same_every_way(const std::function<std::vector<at::Tensor>(const RegionRunner&)>& run) {
  const auto expected = run(kPlain);
  for (const auto& [name, region] : ways()) {
    SCOPED_TRACE(name);
    expect_bitwise_equal(expected, run(region));
  }
}

struct Normed {
  explicit Normed(std::optional<double> momentum) {
    torch::manual_seed(1);
    conv = torch::nn::Conv2d(torch::nn::Conv2dOptions(2, 3, 3).padding(1));
    norm = torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(3).momentum(momentum));
    fn = [c = conv, n = norm](at::Tensor x) mutable { return n(c(x)).sigmoid(); };
  }
  std::vector<at::Tensor> state() const {
    return {conv->weight.grad(),
            norm->weight.grad(),
            norm->running_mean,
            norm->running_var,
            norm->num_batches_tracked};
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  std::function<at::Tensor(at::Tensor)> fn;
};

TEST(Writes, BatchNormStatisticsAdvanceOnce) {
  for (const auto momentum : {std::optional<double>(0.1), std::optional<double>()}) {
    expect_same_every_way([momentum](const RegionRunner& region) {
      Normed model(momentum);
      for (uint64_t step = 0; step < 3; ++step) {
        region(model.fn, float_leaf({2, 2, 4, 4}, step)).square().sum().backward();
      }
      EXPECT_EQ(model.norm->num_batches_tracked.item<int64_t>(), 3);
      return model.state();
    });
  }
}

TEST(Writes, ForwardTwiceThenBackwardTwiceInBothOrders) {
  for (const bool last_first : {false, true}) {
    for (const auto momentum : {std::optional<double>(0.1), std::optional<double>()}) {
      expect_same_every_way([=](const RegionRunner& region) {
        Normed model(momentum);
        const auto a = float_leaf({2, 2, 4, 4}, 1), b = float_leaf({2, 2, 4, 4}, 2);
        const auto first = region(model.fn, a).square().sum();
        const auto second = region(model.fn, b).square().sum();
        (last_first ? second : first).backward();
        (last_first ? first : second).backward();
        auto state = model.state();
        state.insert(state.end(), {a.grad(), b.grad()});
        return state;
      });
    }
  }
}

TEST(Writes, EvalModeLeavesStatisticsAlone) {
  expect_same_every_way([](const RegionRunner& region) {
    Normed model(0.1);
    region(model.fn, float_leaf({2, 2, 4, 4}, 1)).sum().backward();
    model.norm->eval();
    region(model.fn, float_leaf({2, 2, 4, 4}, 2)).sum().backward();
    EXPECT_EQ(model.norm->num_batches_tracked.item<int64_t>(), 1);
    return model.state();
  });
}

TEST(Writes, EvalBetweenForwardAndBackwardDoesNotMatter) {
  // The module's mode is not the region's state: the recompute would take the other branch.
  Normed model(0.1);
  const auto x = float_leaf({2, 2, 4, 4}, 1);
  const auto y = checkpoint({.name = "norm"}, model.fn, x).sum();
  {
    torch::NoGradGuard no_grad;
    model.fn(x);  // validation in train mode advances statistics, and they stay advanced
  }
  const auto mean = model.norm->running_mean.clone();
  y.backward();
  EXPECT_TRUE(bitwise_equal(mean, model.norm->running_mean));
}

/// Buffers used in each of the ways below are the region's captures, by reference and with one
/// owner.
TEST(Writes, ABufferReadBeforeItIsOverwritten) {
  expect_same_every_way([](const RegionRunner& region) {
    auto buffer = torch::full({4}, 0.5F);
    const auto x = float_leaf({4}, 1);
    const auto fn = [&buffer](at::Tensor h) {
      const auto y = (h + buffer).sigmoid();  // adding saves nothing
      buffer.copy_(y.detach());
      return y.exp();
    };
    region(fn, x).sum().backward();
    return std::vector<at::Tensor>{x.grad(), buffer};
  });
}

TEST(Writes, AFreshLookingBufferReadBeforeItIsZeroedOrFilledWithNoise) {
  const std::vector<std::function<void(at::Tensor&)>> overwriters{
      [](at::Tensor& t) { t.zero_(); },
      [](at::Tensor& t) { t.fill_(3); },
      [](at::Tensor& t) { t.normal_(); },
      [](at::Tensor& t) { at::add_out(t, torch::ones({4}), torch::ones({4})); }};
  for (const auto& overwrite : overwriters) {
    expect_same_every_way([&overwrite](const RegionRunner& region) {
      torch::manual_seed(2);
      auto buffer = torch::arange(4, torch::kFloat);
      const auto x = float_leaf({4}, 1);
      const auto fn = [&](at::Tensor h) {
        const auto y = (h + buffer).sigmoid();
        torch::NoGradGuard no_grad;
        overwrite(buffer);
        return y;
      };
      const auto grad_fn = [&](at::Tensor h) { return fn(h).exp(); };
      region(grad_fn, x).sum().backward();
      return std::vector<at::Tensor>{x.grad(), buffer};
    });
  }
}

TEST(Writes, CountersAndMovingAveragesByReferenceAndByValue) {
  expect_same_every_way([](const RegionRunner& region) {
    auto count = torch::zeros({}, torch::kLong);
    auto average = torch::zeros({4});
    const auto by_value = average;
    const auto x = float_leaf({4}, 1);
    const auto fn = [&count, by_value](at::Tensor h) {
      count.add_(1);
      const auto y = (h * count.item<double>() + by_value).sigmoid();
      torch::NoGradGuard no_grad;
      by_value.mul_(0.9).add_(y, 0.1);
      return y;
    };
    auto h = x;
    for (int i = 0; i < 3; ++i) {
      h = region([fn](at::Tensor t) { return fn(t).exp(); }, h);
    }
    h.sum().backward();
    EXPECT_EQ(count.item<int64_t>(), 3);
    return std::vector<at::Tensor>{x.grad(), count, average};
  });
}

TEST(Writes, WritesThroughViewsOfABuffer) {
  expect_same_every_way([](const RegionRunner& region) {
    const auto cache = torch::zeros({3, 4});
    const auto x = float_leaf({4}, 1);
    const auto fn = [cache](at::Tensor h) {
      const auto y = (h + cache.sum(0)).sigmoid();
      cache.select(0, 1).add_(y.detach());
      cache.narrow(1, 0, 2).mul_(2);
      cache.index_put_({torch::tensor({2})}, y.detach().unsqueeze(0));
      return (y * cache.clone().sum(0)).exp();
    };
    region(fn, region(fn, x)).sum().backward();
    return std::vector<at::Tensor>{x.grad(), cache};
  });
}

TEST(Writes, PowerIterationAsInSpectralNorm) {
  expect_same_every_way([](const RegionRunner& region) {
    const auto weight = float_leaf({4, 4}, 3), x = float_leaf({2, 4}, 1);
    const auto u = torch::ones({4}) / 2;
    const auto fn = [weight, u](at::Tensor h) {
      {
        torch::NoGradGuard no_grad;
        u.copy_(torch::mv(weight, u));
        u.div_(u.norm());
      }
      const auto direction = u.clone();  // plain autograd would refuse the next write otherwise
      return torch::mm(h, weight / direction.dot(torch::mv(weight, direction))).sigmoid();
    };
    for (int step = 0; step < 2; ++step) {
      region(fn, x).sum().backward();
    }
    return std::vector<at::Tensor>{weight.grad(), x.grad(), u};
  });
}

TEST(Writes, ABufferPassedAsAnArgument) {
  const auto run = [](bool checkpointed) {
    const auto buffer = torch::zeros({4});
    const auto x = float_leaf({4}, 1);
    const auto fn = [](at::Tensor h, at::Tensor state) {
      const auto y = (h + state).sigmoid();
      state.add_(y.detach());
      return y.exp();
    };
    const auto call = [&](at::Tensor h) {
      return checkpointed ? checkpoint(fn, h, buffer) : fn(h, buffer);
    };
    call(call(x)).sum().backward();
    return std::vector<at::Tensor>{x.grad(), buffer};
  };
  expect_bitwise_equal(run(false), run(true));
}

TEST(Writes, WhatTheCallerWroteAfterwardsStays) {
  const auto buffer = torch::zeros({4});
  const auto x = float_leaf({4}, 1);
  const auto y = checkpoint(
      [buffer](at::Tensor h) {
        const auto z = (h + buffer).sigmoid();
        buffer.add_(1);
        return z.exp();
      },
      x);
  buffer.fill_(7);
  y.sum().backward();
  EXPECT_TRUE(bitwise_equal(torch::full({4}, 7.0F), buffer));
  const auto plain = float_leaf({4}, 1);
  (plain + torch::zeros({4})).sigmoid().exp().sum().backward();
  EXPECT_TRUE(bitwise_equal(plain.grad(), x.grad()));
}

TEST(Writes, AnExceptionInRecomputeStillPutsBuffersBack) {
  const auto buffer = torch::zeros({4});
  const auto x = float_leaf({4}, 1);
  bool fails = false;
  const auto y = checkpoint(
      [buffer, &fails](at::Tensor h) {
        buffer.add_(1);
        if (fails) {
          throw std::runtime_error("on purpose");
        }
        return h.exp();
      },
      x);
  fails = true;
  EXPECT_THROW(y.sum().backward(), CheckpointError);
  EXPECT_TRUE(bitwise_equal(torch::ones({4}), buffer));
  EXPECT_EQ(buffer._version(), 1);
}

TEST(Writes, DropoutCostsNoSnapshot) {
  constexpr int64_t kCount = 1 << 20;
  const auto x = float_leaf({kCount}, 1);
  const auto peak_of = [&](const RegionRunner& region) {
    PeakTracker tracker(c10::kCPU);
    const auto fn = [](at::Tensor h) {
      // Each one makes a mask and lets it go again.
      for (int i = 0; i < 3; ++i) {
        h = torch::dropout(h, 0.5, true);
      }
      return h;
    };
    const auto y = region(fn, x);
    return tracker.extra();
  };
  // Input, mask and result of one dropout at a time, and a little for bookkeeping. A snapshot of
  // each mask would come on top.
  constexpr auto kTensor = static_cast<int64_t>(kCount * sizeof(float));
  EXPECT_LT(peak_of(with({})), 3 * kTensor + kTensor / 2);
  EXPECT_GT(peak_of(kPlain), 3 * kTensor + kTensor / 2);  // the measure sees what is kept
}

TEST(Writes, FactoriesInsideTheRegionCostNoSnapshot) {
  constexpr int64_t kCount = 1 << 20;
  const auto x = float_leaf({kCount}, 1);
  PeakTracker tracker(c10::kCPU);
  const auto y = checkpoint(
      [](at::Tensor h) {
        for (int i = 0; i < 3; ++i) {
          torch::zeros_like(h);
          torch::full({kCount}, 2.0F);
          torch::rand({kCount});
        }
        return h + torch::ones({kCount});
      },
      x);
  constexpr auto kTensor = static_cast<int64_t>(kCount * sizeof(float));
  EXPECT_LT(tracker.extra(), 2 * kTensor + kTensor / 2);
}

}  // namespace
}  // namespace reprise::testing
