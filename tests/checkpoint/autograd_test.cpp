// Non-reentrant regions against plain autograd: every way of asking for gradients gives the same
// ones, and the callable runs as often as it must and no more.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"
#include "support/devices.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

std::vector<at::Tensor> grads(const at::Tensor& of, const std::vector<at::Tensor>& inputs) {
  return torch::autograd::grad({of}, inputs, {}, /*retain_graph=*/true);
}

TEST(Autograd, GradForASubsetOfInputs) {
  const auto a = double_leaf({3, 3}, 1), b = double_leaf({3, 3}, 2), c = double_leaf({3, 3}, 3);
  const auto fn = [](at::Tensor p, at::Tensor q, at::Tensor r) {
    return (torch::mm(p.sigmoid(), q).exp() * r).sum();
  };
  const auto plain = fn(a, b, c);
  const auto ours = checkpoint(fn, a, b, c);
  EXPECT_TRUE(bitwise_equal(plain, ours));
  for (const auto& wanted :
       std::vector<std::vector<at::Tensor>>{{a}, {b}, {c}, {c, a}, {a, b, c}}) {
    expect_bitwise_equal(grads(plain, wanted), grads(ours, wanted));
  }
  EXPECT_FALSE(a.grad().defined());
}

TEST(Autograd, RunsTwiceAndOnceMoreForEachRetainedBackward) {
  const auto x = double_leaf({4}, 1);
  int runs = 0;
  const auto y = checkpoint(
      [&runs](at::Tensor h) {
        ++runs;
        return h.sin().exp().sum();
      },
      x);
  EXPECT_EQ(runs, 1);
  const auto first = grads(y, {x});
  EXPECT_EQ(runs, 2);
  const auto second = grads(y, {x});
  EXPECT_EQ(runs, 3);
  y.backward();
  EXPECT_EQ(runs, 4);
  expect_bitwise_equal(first, second);
  EXPECT_TRUE(bitwise_equal(first[0], x.grad()));
}

TEST(Autograd, BackwardTwiceWithoutRetainGraphSaysSo) {
  const auto x = double_leaf({4}, 1);
  const auto y = checkpoint([](at::Tensor h) { return h.exp().sum(); }, x);
  y.backward();
  const auto message = message_of<c10::Error>([&] { y.backward(); });
  EXPECT_TRUE(contains(message, "backward through the graph a second time"));
}

TEST(Autograd, DoubleAndTripleBackward) {
  const auto run = [](bool checkpointed) {
    const auto x = double_leaf({3, 2}, 5), w = double_leaf({2, 2}, 6);
    const auto fn = [](at::Tensor h, at::Tensor v) { return torch::mm(h, v).tanh().pow(3).sum(); };
    auto y = checkpointed ? checkpoint(fn, x, w) : fn(x, w);
    std::vector<at::Tensor> result{y};
    for (int order = 0; order < 3; ++order) {
      y = torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true)[0].square().sum();
      result.push_back(y);
    }
    y.backward();
    result.insert(result.end(), {x.grad(), w.grad()});
    return result;
  };
  expect_bitwise_equal(run(false), run(true));
}

// On a GPU the inner backward call runs on another thread in forward, and on the recompute's own in
// backward; what it saves and runs must not shift what is the region's own.
TEST(Autograd, GradientPenaltyInsideTheRegion) {
  for (const auto device : devices()) {
    const auto run = [device](bool checkpointed, const CheckpointOptions& options) {
      const auto x = double_leaf({3, 2}, 5).detach().to(device).set_requires_grad(true);
      const auto w = double_leaf({2, 2}, 6).detach().to(device).set_requires_grad(true);
      const auto fn = [w](at::Tensor h) {
        const auto y = torch::mm(h, w).tanh();
        const auto g = torch::autograd::grad({y.sum()}, {h}, {}, true, /*create_graph=*/true)[0];
        return y.sum() + torch::mm(g.exp(), w.sin()).square().sum();
      };
      const auto y = checkpointed ? checkpoint(options, fn, x) : fn(x);
      y.backward();
      return std::vector<at::Tensor>{y, x.grad(), w.grad()};
    };
    const auto plain = run(false, {});
    expect_bitwise_equal(plain, run(true, {}));
    expect_bitwise_equal(plain, run(true, {.early_stop = false}));
    expect_bitwise_equal(plain, run(true, {.determinism_check = DeterminismCheck::Values}));
    expect_bitwise_equal(plain, run(true, {.policy = policy::save_matmuls()}));
    expect_bitwise_equal(plain, run(true, {.policy = policy::save_ops({"aten::tanh"})}));
  }
}

TEST(Autograd, OnlyParametersNeedGrad) {
  torch::manual_seed(0);
  torch::nn::Linear linear(4, 4);
  const auto x = torch::randn({2, 4});
  int runs = 0;
  auto fn = [linear, &runs](at::Tensor h) mutable {
    ++runs;
    return linear(linear(h).relu()).square().sum();
  };
  fn(x).backward();
  const auto plain = linear->weight.grad().clone();
  linear->zero_grad();
  runs = 0;
  checkpoint(fn, x).backward();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(bitwise_equal(plain, linear->weight.grad()));
}

TEST(Autograd, CapturedTensorsGetTheirGradients) {
  const auto run = [](bool checkpointed) {
    const auto x = double_leaf({3}, 1), captured_leaf = double_leaf({3}, 2),
               root = double_leaf({3}, 3);
    const auto captured = root.exp();  // with history
    const auto fn = [captured_leaf, captured](at::Tensor h) {
      return (h * captured_leaf * captured).sigmoid().prod();
    };
    (checkpointed ? checkpoint(fn, x) : fn(x)).backward();
    return std::vector<at::Tensor>{x.grad(), captured_leaf.grad(), root.grad()};
  };
  expect_bitwise_equal(run(false), run(true));
}

TEST(Autograd, DetachedIntegerBoolAndUndefinedInputs) {
  const auto run = [](bool checkpointed) {
    const auto x = double_leaf({4, 3}, 1), scale = double_leaf({4, 3}, 2);
    const auto rows = torch::tensor({3, 0, 0}, torch::kLong);
    const auto mask = torch::tensor({true, false, true});
    const auto fn = [](at::Tensor h,
                       at::Tensor detached,
                       at::Tensor index,
                       at::Tensor keep,
                       at::Tensor nothing,
                       std::optional<at::Tensor> bias) {
      EXPECT_FALSE(nothing.defined());
      EXPECT_FALSE(bias.has_value());
      EXPECT_FALSE(detached.requires_grad());
      return (h * detached).index_select(0, index).index({keep}).exp().sum();
    };
    const auto none = std::optional<at::Tensor>();
    const auto y = checkpointed ? checkpoint(fn, x, scale.detach(), rows, mask, at::Tensor(), none)
                                : fn(x, scale.detach(), rows, mask, at::Tensor(), none);
    y.backward();
    EXPECT_FALSE(scale.grad().defined());
    return std::vector<at::Tensor>{y, x.grad()};
  };
  expect_bitwise_equal(run(false), run(true));
}

TEST(Autograd, AnInputReturnedAsItIsStaysItself) {
  const auto x = double_leaf({3}, 1);
  const auto [same, doubled] =
      checkpoint([](at::Tensor h) { return std::make_pair(h, h.sin() * 2); }, x);
  EXPECT_TRUE(same.is_same(x));
  (same * doubled).sum().backward();
  const auto expected = torch::autograd::grad({(x * (x.sin() * 2)).sum()}, {x})[0];
  EXPECT_TRUE(bitwise_equal(expected, x.grad()));
}

TEST(Autograd, AnEmptyRegionIsNeverRecomputed) {
  const auto x = double_leaf({3}, 1);
  int runs = 0;
  const auto y = checkpoint(
      [&runs](at::Tensor h) {
        ++runs;
        return h;
      },
      x);
  y.sum().backward();
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(bitwise_equal(torch::ones_like(x), x.grad()));
}

TEST(Autograd, RegionsWithoutArgumentsAndWithoutResult) {
  const auto w = double_leaf({3}, 1);
  checkpoint([w] { return w.exp().sum(); }).backward();
  EXPECT_TRUE(bitwise_equal(w.exp(), w.grad()));

  static_assert(std::is_void_v<decltype(checkpoint([] {}))>);
  w.mutable_grad() = at::Tensor();
  at::Tensor seen;
  checkpoint([w, &seen] { seen = w.exp().sum(); });
  const auto loss = seen;
  loss.backward();
  EXPECT_TRUE(bitwise_equal(w.exp(), w.grad()));
}

TEST(Autograd, AResultWithoutGradKeepsNothingOfTheRegion) {
  const auto x = torch::randn({3});
  auto alive = std::make_shared<int>(0);
  const std::weak_ptr<int> region = alive;
  const auto y = checkpoint([alive = std::move(alive)](at::Tensor h) { return h.exp(); }, x);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(bitwise_equal(x.exp(), y));
  EXPECT_TRUE(region.expired());
}

TEST(Autograd, ViewOutputsKnowTheirBaseAndTakeInPlaceOperators) {
  const auto run = [](bool checkpointed) {
    const auto x = double_leaf({4, 4}, 1);
    const auto fn = [](at::Tensor h) {
      const auto y = h.sin() * 3;
      return std::vector<at::Tensor>{y.narrow(0, 1, 2), y.t()};
    };
    const auto views = checkpointed ? checkpoint(fn, x) : fn(x);
    EXPECT_TRUE(views[0].is_view());
    EXPECT_TRUE(views[0]._base().is_same(views[1]._base()));
    views[0].mul_(2);  // seen through the other view
    views[1].exp().sum().backward();
    return std::vector<at::Tensor>{views[0], views[1], x.grad()};
  };
  expect_bitwise_equal(run(false), run(true));
}

TEST(Autograd, InPlaceOperatorsInsideTheRegion) {
  const auto run = [](bool checkpointed) {
    const auto x = double_leaf({4, 4}, 1);
    const auto fn = [](at::Tensor h) {
      auto y = h * 2;
      y.sigmoid_();
      y = y * 1.5;
      y.select(0, 1).zero_();
      y.masked_fill_(y > 0.7, 0.1);
      auto filled = torch::zeros_like(y);
      filled.index_copy_(0, torch::tensor({2, 0}), y.narrow(0, 0, 2).exp());
      return (filled * y).add_(h).exp();
    };
    (checkpointed ? checkpoint(fn, x) : fn(x)).sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(bitwise_equal(run(false), run(true)));
}

TEST(Autograd, OutputsMayStayUnused) {
  const auto fn = [](at::Tensor h) {
    const auto trunk = h.sin();
    return std::make_tuple(trunk.exp(), trunk.tanh(), h.argmax(), trunk.cos().detach());
  };
  const auto plain = double_leaf({3}, 1), ours = double_leaf({3}, 1);
  std::get<1>(fn(plain)).sum().backward();
  std::get<1>(checkpoint(fn, ours)).sum().backward();
  EXPECT_TRUE(bitwise_equal(plain.grad(), ours.grad()));
}

TEST(Autograd, OneOutputAfterTheOther) {
  // Branches that share no node: the first backward frees its own and leaves the other's.
  const auto fn = [](at::Tensor h) { return std::make_pair(h.exp(), h.sigmoid()); };
  const auto plain = double_leaf({3}, 1), ours = double_leaf({3}, 1);
  int runs = 0;
  const auto [a, b] = checkpoint(
      [&runs, fn](at::Tensor h) {
        ++runs;
        return fn(h);
      },
      ours);
  const auto [c, d] = fn(plain);
  c.sum().backward();
  d.sum().backward();
  a.sum().backward();
  b.sum().backward();
  EXPECT_EQ(runs, 3);
  EXPECT_TRUE(bitwise_equal(plain.grad(), ours.grad()));
}

TEST(Autograd, HooksRunOnceAndChangeTheGradient) {
  const auto run = [](bool checkpointed, int& calls) {
    const auto x = double_leaf({3}, 1);
    const auto count_and = [&calls](auto change) {
      return [&calls, change](const at::Tensor& grad) {
        ++calls;
        return change(grad);
      };
    };
    const auto fn = [count_and](at::Tensor h) {
      const auto y = h.exp();
      y.register_hook(count_and([](const at::Tensor& grad) { return grad * 2; }));
      return y.sin();
    };
    const auto y = checkpointed ? checkpoint(fn, x) : fn(x);
    y.register_hook(count_and([](const at::Tensor& grad) { return grad + 1; }));
    y.sum().backward();
    return x.grad();
  };
  int plain_calls = 0, our_calls = 0;
  const auto plain = run(false, plain_calls);
  EXPECT_TRUE(bitwise_equal(plain, run(true, our_calls)));
  EXPECT_EQ(plain_calls, our_calls);
}

TEST(Autograd, RegionsInARowThatTakeOneTensorTwice) {
  const auto run = [](bool checkpointed) {
    auto x = double_leaf({3, 3}, 1);
    const auto fn = [](at::Tensor h, at::Tensor g) { return torch::mm(h.tanh(), g).sigmoid() + h; };
    auto h = x;
    for (int i = 0; i < 4; ++i) {
      h = checkpointed ? checkpoint(fn, h, h) : fn(h, h);
    }
    h.sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(bitwise_equal(run(false), run(true)));
}

TEST(Autograd, ACallableThatChangesItselfStartsFromTheSameStateAgain) {
  const auto x = double_leaf({3}, 1);
  const auto make = [] {
    return [count = 0](at::Tensor h) mutable {
      ++count;
      return (h * count).exp().sum();
    };
  };
  auto fn = make();
  checkpoint(fn, x).backward();  // runs with count 1, both times
  checkpoint(fn, x).backward();  // with count 2, both times: forward moved the caller's object once
  const auto plain = double_leaf({3}, 1);
  auto plain_fn = make();
  plain_fn(plain).backward();
  plain_fn(plain).backward();
  EXPECT_TRUE(bitwise_equal(plain.grad(), x.grad()));
}

TEST(Autograd, WithoutGradModeItIsAPlainCall) {
  const auto x = double_leaf({3}, 1);
  auto alive = std::make_shared<int>(0);
  const std::weak_ptr<int> region = alive;
  torch::NoGradGuard no_grad;
  const auto y = checkpoint([alive = std::move(alive)](at::Tensor h) { return h.exp(); }, x);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(region.expired());
  EXPECT_TRUE(bitwise_equal(x.exp(), y));
}

}  // namespace
}  // namespace reprise::testing
