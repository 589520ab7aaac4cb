// Early stop: recompute ends with the last tensor that backward needs, never before that tensor is
// really there, and never unnoticed.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

/// Which of the numbered places of a callable were reached.
struct Trace {
  void at(int place) { places.push_back(place); }
  std::vector<int> places;
};

TEST(EarlyStop, WhatFollowsTheLastSavedTensorIsNotRunAgain) {
  const auto x = float_leaf({3});
  Trace trace;
  const Fn fn = [&trace](at::Tensor h) {
    trace.at(1);
    h = h.sin();  // the last that saves
    trace.at(2);
    h = h + 1;
    trace.at(3);
    return h;
  };
  checkpoint(fn, x).sum().backward();
  EXPECT_EQ(trace.places, (std::vector<int>{1, 2, 3, 1}));
}

TEST(EarlyStop, CanBeSwitchedOff) {
  const auto x = float_leaf({3});
  Trace trace;
  const Fn fn = [&trace](at::Tensor h) {
    h = h.sin();
    trace.at(1);
    return h + 1;
  };
  checkpoint({.early_stop = false}, fn, x).sum().backward();
  EXPECT_EQ(trace.places, (std::vector<int>{1, 1}));
}

TEST(EarlyStop, StopsEarlierWhenTheRestOfTheGraphIsGone) {
  const auto x = float_leaf({3});
  Trace trace;
  const auto fn = [&trace](at::Tensor h) {
    const auto a = h.sin();
    trace.at(1);
    const auto b = h.exp();
    trace.at(2);
    return std::make_pair(a, b);
  };
  auto [a, b] = checkpoint(fn, x);
  b.sum().backward();  // frees the node that saved last
  trace.places.clear();
  a.sum().backward();
  EXPECT_EQ(trace.places, std::vector<int>{});

  std::tie(a, b) = checkpoint(fn, x);
  b = at::Tensor();  // never used: its node is dropped
  trace.places.clear();
  a.sum().backward();
  EXPECT_EQ(trace.places, std::vector<int>{});
}

TEST(EarlyStop, GradientsAreRightForPartsOfAGraphInAnyOrder) {
  const auto fn = [](at::Tensor h) {
    return std::vector<at::Tensor>{h.sin(), h.exp(), h.tanh(), h.sigmoid()};
  };
  for (const auto& order :
       std::vector<std::vector<size_t>>{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3}, {1}}) {
    const auto plain = float_leaf({3}), ours = float_leaf({3});
    const auto expected = fn(plain);
    const auto outputs = checkpoint(fn, ours);
    for (const size_t i : order) {
      expected[i].sum().backward();
      outputs[i].sum().backward();
    }
    EXPECT_TRUE(bitwise_equal(plain.grad(), ours.grad()));
  }
}

// rrelu saves its noise before the kernel fills it.
struct Rrelu : ::testing::TestWithParam<bool> {
  static at::Tensor gradient(const std::function<at::Tensor(const Fn&, at::Tensor)>& region,
                             const Fn& fn) {
    torch::manual_seed(5);
    const auto x = float_leaf({64});
    region(fn, x).sum().backward();
    return x.grad();
  }
  static std::vector<Fn> bodies() {
    return {[](at::Tensor h) { return torch::rrelu(h, 0.1, 0.9, /*training=*/true); },
            [](at::Tensor h) { return torch::rrelu(h.sin(), 0.1, 0.9, true) + 1; },
            [](at::Tensor h) {
              return torch::rrelu(torch::rrelu(h, 0.1, 0.9, true) - 0.2, 0.1, 0.9, true);
            },
            [](at::Tensor h) {
              h = h * 1;
              return torch::rrelu_(h, 0.1, 0.9, true);
            },
            [](at::Tensor h) {
              return torch::nn::functional::rrelu(
                  h,
                  torch::nn::functional::RReLUFuncOptions().lower(0.1).upper(0.9).training(true));
            }};
  }
};

TEST_P(Rrelu, AsTheLastSavingOperatorEqualsPlain) {
  const bool early_stop = GetParam();
  const auto with = [early_stop](CheckpointOptions options) {
    options.early_stop = early_stop || options.use_reentrant;
    return [options](const Fn& fn, at::Tensor x) { return checkpoint(options, fn, x); };
  };
  const auto nested = [early_stop](const Fn& fn, at::Tensor x) {
    const CheckpointOptions options{.early_stop = early_stop};
    return checkpoint(
        options, [=](at::Tensor h) { return checkpoint(options, fn, h); }, x);
  };
  const auto noise = policy::from([](const OpContext& op) {
    return op.name == "aten::sin" ? Decision::Keep : Decision::Recompute;
  });
  for (const auto& fn : bodies()) {
    const auto plain = gradient([](const Fn& f, at::Tensor x) { return f(x); }, fn);
    EXPECT_TRUE(bitwise_equal(plain, gradient(with({}), fn)));
    EXPECT_TRUE(
        bitwise_equal(plain, gradient(with({.determinism_check = DeterminismCheck::Values}), fn)));
    EXPECT_TRUE(bitwise_equal(plain, gradient(with({.policy = noise}), fn)));
    EXPECT_TRUE(bitwise_equal(plain, gradient(with({.use_reentrant = true}), fn)));
    EXPECT_TRUE(bitwise_equal(plain, gradient(nested, fn)));
  }
}

INSTANTIATE_TEST_SUITE_P(EarlyStop, Rrelu, ::testing::Bool());

TEST(EarlyStop, BatchNormAndInPlaceActivationsAsTheLastSavingOperator) {
  torch::manual_seed(5);
  torch::nn::BatchNorm1d norm(4);
  const std::vector<Fn> bodies{[norm](at::Tensor h) mutable { return norm(h); },
                               [](at::Tensor h) { return (h * 2).relu_(); },
                               [](at::Tensor h) { return (h * 2).sigmoid_(); },
                               [](at::Tensor h) { return torch::elu_(h = h * 2); },
                               [](at::Tensor h) { return torch::celu_(h = h * 2, 0.5); },
                               [](at::Tensor h) { return torch::selu_(h = h * 2); }};
  for (const auto& fn : bodies) {
    for (const auto check : {DeterminismCheck::Metadata, DeterminismCheck::Values}) {
      const auto plain = float_leaf({5, 4}), ours = float_leaf({5, 4});
      fn(plain).square().sum().backward();
      checkpoint({.determinism_check = check}, fn, ours).square().sum().backward();
      EXPECT_TRUE(bitwise_equal(plain.grad(), ours.grad()));
    }
  }
}

TEST(EarlyStop, SwallowedByCatchAllIsDetected) {
  const auto x = float_leaf({3});
  const Fn fn = [](at::Tensor h) {
    try {
      h = h.sin();
    } catch (...) {
    }
    return h + 1;
  };
  const auto y = checkpoint({.name = "greedy"}, fn, x).sum();
  const auto message = message_of<CheckpointError>([&] { y.backward({}, /*retain_graph=*/true); });
  EXPECT_TRUE(contains(message, "region \"greedy\" swallowed the early stop"));
  EXPECT_TRUE(contains(message, "early_stop = false"));

  const auto z = checkpoint({.early_stop = false}, fn, x).sum();
  EXPECT_NO_THROW(z.backward());
}

TEST(EarlyStop, TurnedIntoAnotherExceptionIsDetected) {
  const auto x = float_leaf({3});
  const Fn fn = [](at::Tensor h) {
    try {
      h = h.sin();
    } catch (...) {
      throw std::runtime_error("something failed");
    }
    return h + 1;
  };
  const auto y = checkpoint({.name = "translator"}, fn, x).sum();
  const auto message = message_of<CheckpointError>([&] { y.backward(); });
  EXPECT_TRUE(contains(message, "region \"translator\" swallowed the early stop"));
}

TEST(EarlyStop, PassesThroughHandlersForOrdinaryExceptions) {
  const auto x = float_leaf({3}), plain = float_leaf({3});
  const Fn fn = [](at::Tensor h) {
    try {
      h = h.sin();
    } catch (const std::exception&) {
      return h;
    }
    return h + 1;
  };
  checkpoint(fn, x).sum().backward();
  fn(plain).sum().backward();
  EXPECT_TRUE(bitwise_equal(plain.grad(), x.grad()));
}

TEST(EarlyStop, IsCounted) {
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  const auto x = float_leaf({3});
  const Fn stops = [](at::Tensor h) { return h.sin() + 1; };
  checkpoint({.name = "on"}, stops, x).sum().backward();
  checkpoint({.early_stop = false, .name = "off"}, stops, x).sum().backward();
  const auto stats = checkpoint_stats();
  record_checkpoint_stats(false);
  EXPECT_EQ(stats.regions.at("on").early_stopped, 1U);
  EXPECT_EQ(stats.regions.at("off").early_stopped, 0U);
  EXPECT_EQ(stats.total.recomputed, 2U);
}

}  // namespace
}  // namespace reprise::testing
