// Every kind of callable and argument goes through a region and comes out as in a plain call, and
// the tensors inside arguments are found: they are version-checked, and free to go in nested
// regions.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::testing {

/// A struct that says where its tensors are.
struct Batch {
  at::Tensor ids, mask;
  std::string name;
  template <class Visit>
  void for_each_tensor(Visit&& visit) {
    visit(ids);
    visit(mask);
  }
};

/// One that cannot be changed.
struct ForeignBatch {
  at::Tensor values;
  std::vector<std::string> words;
};

/// Plain data.
struct Settings {
  double factor;
  int power;
};

}  // namespace reprise::testing

template <>
struct reprise::TensorFields<reprise::testing::ForeignBatch> {
  template <class Visit>
  static void visit(reprise::testing::ForeignBatch& batch, Visit&& visit) {
    visit(batch.values);
  }
};

namespace reprise::testing {
namespace {

enum class Mode : uint8_t { Sin, Cos };

/// What a region that is given the tensor of `args` does must be what a plain call does.
template <class Fn, class... Args>
void expect_equal_to_plain(const at::Tensor& x, Fn fn, Args... args) {
  const auto plain = fn(args...);
  const auto plain_gradient = torch::autograd::grad({plain.square().sum()}, {x})[0];
  const auto ours = checkpoint(fn, args...);
  const auto gradient = torch::autograd::grad({ours.square().sum()}, {x})[0];
  EXPECT_TRUE(bitwise_equal(plain, ours));
  EXPECT_TRUE(bitwise_equal(plain_gradient, gradient));
}

/// A region finds the tensor `x` in `argument`: it notices a change to it.
template <class T>
void expect_found(const at::Tensor& x, T argument) {
  const auto y = checkpoint(
      [](const T&, const at::Tensor& z) { return z.exp().sin(); }, argument, ramp_leaf({3, 4}));
  x.detach().add_(1);
  EXPECT_TRUE(
      contains(message_of<CheckpointError>([&] { y.sum().backward(); }), "was changed in place"));
}

at::Tensor data() {
  return torch::ones({2});
}

TEST(Arguments, TensorsAreFoundInEveryKnownType) {
  auto x = data();
  expect_found(x, x);
  expect_found(x, std::optional(x));
  expect_found(x, std::vector{data(), x});
  expect_found(x, std::array{data(), x});
  expect_found(x, std::pair(1, x));
  expect_found(x, std::tuple(x, std::string("a"), 2.0));
  expect_found(x, std::map<std::string, at::Tensor>{{"x", x}});
  expect_found(x, std::unordered_map<int, std::vector<at::Tensor>>{{1, {x}}});
  expect_found(x, Batch{data(), x, "batch"});
  expect_found(x, ForeignBatch{x, {"a"}});
  expect_found(x,
               std::vector<std::optional<std::pair<int, Batch>>>{
                   std::nullopt, std::pair(1, Batch{x, data(), ""})});
}

TEST(Arguments, OptionalAndUndefinedTensorsKeepTheirPlaces) {
  const auto x = ramp_leaf({3, 4});
  const auto sum =
      [](std::optional<at::Tensor> a, std::optional<at::Tensor> b, at::Tensor c, at::Tensor d) {
        EXPECT_FALSE(a.has_value());
        EXPECT_FALSE(c.defined());
        return b->exp() * d;
      };
  expect_equal_to_plain(x, sum, std::optional<at::Tensor>(), std::optional(x), at::Tensor(), x);
}

TEST(Arguments, ContainersComeBackInTheSameOrder) {
  const auto x = ramp_leaf({3, 4});
  expect_equal_to_plain(
      x,
      [](const std::vector<at::Tensor>& list,
         const std::map<std::string, at::Tensor>& named,
         std::array<at::Tensor, 2> pair) {
        return list[0].exp() * list[1] + named.at("a").sin() * named.at("b") +
               pair[0].cos() * pair[1];
      },
      std::vector{x, x + 1},
      std::map<std::string, at::Tensor>{{"b", x * 2}, {"a", x * 3}},
      std::array{x * 4, x * 5});
}

TEST(Arguments, StructsOfTensors) {
  const auto x = ramp_leaf({3, 4});
  expect_equal_to_plain(
      x,
      [](const Batch& batch, ForeignBatch foreign) {
        EXPECT_EQ(batch.name, "b");
        EXPECT_EQ(foreign.words.at(0), "word");
        return batch.ids.exp() * batch.mask.sin() * foreign.values.cos();
      },
      Batch{x, x * 2, "b"},
      ForeignBatch{x * 3, {"word"}});
}

TEST(Arguments, PlainValues) {
  const auto x = ramp_leaf({3, 4});
  expect_equal_to_plain(
      x,
      [](const at::Tensor& t,
         std::string text,
         Mode mode,
         Settings settings,
         at::Scalar scalar,
         const char* literal,
         std::vector<bool> flags,
         std::optional<double> none,
         std::shared_ptr<int> shared) {
        EXPECT_EQ(text + literal, "textliteral");
        EXPECT_TRUE(flags.at(1));
        EXPECT_FALSE(none.has_value());
        const auto y = mode == Mode::Cos ? t.cos() : t.sin();
        return (y * settings.factor + scalar).pow(settings.power) * *shared;
      },
      x,
      std::string("text"),
      Mode::Cos,
      Settings{.factor = 2.5, .power = 3},
      at::Scalar(7),
      "literal",
      std::vector<bool>{false, true},
      std::optional<double>(),
      std::make_shared<int>(4));
}

TEST(Arguments, NoneAtAll) {
  const auto x = ramp_leaf({3, 4});
  expect_equal_to_plain(x, [x] { return x.exp().sin(); });
}

TEST(Arguments, AreCopiedSoTheRegionMayChangeItsOwn) {
  const auto x = ramp_leaf({3, 4});
  std::vector<at::Tensor> list{x};
  double factor = 2;
  const auto grow = [](std::vector<at::Tensor>& tensors, double& f) {
    tensors.push_back(tensors[0].exp());
    f += 1;
    return tensors[1].sin() * f;
  };
  const auto y = checkpoint(grow, list, factor);
  EXPECT_EQ(list.size(), 1U);
  EXPECT_EQ(factor, 2);
  factor = 100;  // not what the region was called with
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0],
                            torch::autograd::grad({(x.exp().sin() * 3.0).sum()}, {x})[0]));
}

TEST(Arguments, MayBeMovedIn) {
  auto x = ramp_leaf({3, 4});
  std::vector<at::Tensor> list{x * 1};
  const auto y =
      checkpoint([](std::vector<at::Tensor> t) { return t[0].exp().sin(); }, std::move(list));
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0],
                            torch::autograd::grad({(x * 1).exp().sin().sum()}, {x})[0]));
}

at::Tensor free_function(const at::Tensor& x, double factor) {
  return (x * factor).exp().sin();
}

struct Layer {
  double factor;
  at::Tensor forward(const at::Tensor& x) { return free_function(x, factor); }
  at::Tensor const_forward(at::Tensor x) const { return free_function(x, factor); }
  at::Tensor operator()(at::Tensor x) { return free_function(x, factor); }
};

TEST(Callables, OfEveryKindGiveTheSame) {
  const auto x = ramp_leaf({3, 4});
  const auto expected = torch::autograd::grad({free_function(x, 2).sum()}, {x})[0];
  const auto expect_same = [&](const at::Tensor& y) {
    EXPECT_TRUE(bitwise_equal(expected, torch::autograd::grad({y.sum()}, {x})[0]));
  };
  auto layer = std::make_shared<Layer>(Layer{2});
  Layer object{2};
  const std::function<at::Tensor(at::Tensor)> function = [](at::Tensor t) {
    return free_function(t, 2);
  };
  expect_same(checkpoint(free_function, x, 2));
  expect_same(checkpoint(&free_function, x, 2));
  expect_same(checkpoint(&Layer::forward, layer, x));
  expect_same(checkpoint(&Layer::const_forward, layer.get(), x));
  expect_same(checkpoint(&Layer::forward, std::ref(object), x));
  expect_same(checkpoint(object, x));
  expect_same(checkpoint(Layer{2}, x));
  expect_same(checkpoint(function, x));
  expect_same(checkpoint(std::bind(free_function, std::placeholders::_1, 2), x));
  expect_same(checkpoint([](auto t) { return free_function(t, 2); }, x));
  expect_same(
      checkpoint([](at::Tensor& t) -> const at::Tensor& { return t = free_function(t, 2); }, x));
}

TEST(Callables, ModuleHolders) {
  torch::nn::Linear linear(4, 4);
  torch::nn::Sequential sequential(linear, torch::nn::Tanh());
  const auto x = ramp_leaf({3, 4});
  const auto expected = torch::autograd::grad({torch::tanh(linear(x)).sum()}, {linear->weight})[0];
  const auto y = checkpoint(linear, x).tanh();
  EXPECT_TRUE(bitwise_equal(expected, torch::autograd::grad({y.sum()}, {linear->weight})[0]));
  const auto z =
      checkpoint([sequential](at::Tensor t) mutable { return sequential->forward(t); }, x);
  EXPECT_TRUE(bitwise_equal(expected, torch::autograd::grad({z.sum()}, {linear->weight})[0]));
}

TEST(Callables, MutableStateStartsEachRunWhereForwardDid) {
  const auto x = ramp_leaf({3, 4});
  auto counting = [calls = 0](const at::Tensor& t) mutable {
    ++calls;
    return (t * calls).exp().sin();
  };
  const auto first = checkpoint(counting, x);
  const auto second = checkpoint(counting, x);  // the caller's own copy has moved on
  EXPECT_TRUE(bitwise_equal(first, x.exp().sin()));
  EXPECT_TRUE(bitwise_equal(second, (x * 2).exp().sin()));
  const auto gradient = torch::autograd::grad({second.sum()}, {x}, {}, /*retain_graph=*/true)[0];
  EXPECT_TRUE(bitwise_equal(gradient, torch::autograd::grad({(x * 2).exp().sin().sum()}, {x})[0]));
  EXPECT_TRUE(bitwise_equal(gradient, torch::autograd::grad({second.sum()}, {x})[0]));
}

TEST(Results, AreWhatTheCallableReturns) {
  const auto x = ramp_leaf({3, 4});
  const Batch batch = checkpoint(
      [](const at::Tensor& t) {
        return Batch{t.exp().sin(), t, "out"};
      },
      x);
  EXPECT_EQ(batch.name, "out");
  EXPECT_TRUE(batch.mask.is_same(x));
  EXPECT_TRUE(batch.ids.requires_grad());
  const auto [number, list] = checkpoint(
      [](const at::Tensor& t) {
        return std::pair(7, std::vector{t.exp().sin(), t.detach()});
      },
      x);
  EXPECT_EQ(number, 7);
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({list[0].sum()}, {x})[0],
                            torch::autograd::grad({x.exp().sin().sum()}, {x})[0]));
  const std::unique_ptr<at::Tensor> owned = checkpoint(
      [](const at::Tensor& t) { return std::make_unique<at::Tensor>(t.exp().sin()); }, x);
  EXPECT_TRUE(owned->requires_grad());
  EXPECT_EQ(checkpoint([](const at::Tensor& t) { return t.dim(); }, x), 2);
}

TEST(Results, NothingMayBeReturned) {
  const auto x = ramp_leaf({3, 4});
  at::Tensor out;
  checkpoint([&out](const at::Tensor& t) { out = t.exp().sin(); }, x);
  const auto y = out;
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0],
                            torch::autograd::grad({x.exp().sin().sum()}, {x})[0]));
}

TEST(Results, WithoutGradModeArgumentsAreCopiedToo) {
  const torch::NoGradGuard no_grad;
  int calls = 3;
  const auto y = checkpoint([](int& n) { return torch::full({1}, ++n); }, calls);
  EXPECT_EQ(y.item<int>(), 4);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace reprise::testing
