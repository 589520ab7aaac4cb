// The claims of PyTorch's TestNestedCheckpoint (test/test_autograd.py). docs/upstream-tests.md says
// which test is which.
#include "checkpoint/weak_node.h"
#include "support/bitwise.h"
#include "support/kernel_calls.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using torch::autograd::Node;
using torch::autograd::variable_list;

Fn gradient_of(const Fn& fn) {
  return [fn](at::Tensor x) {
    const torch::AutoGradMode enabled(true);
    return torch::autograd::grad({fn(x)}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  };
}

Fn sum_of(const Fn& fn) {
  return [fn](at::Tensor x) { return fn(x).sum(); };
}

/// Names of the nodes of `fn`'s graph that outlive it.
std::vector<std::string> surviving_nodes(const Fn& fn, const at::Tensor& x) {
  std::vector<std::pair<std::string, detail::WeakNode>> nodes;
  {
    auto leaf = x.detach().clone().set_requires_grad(true);
    auto y = fn(leaf);
    std::unordered_set<Node*> seen;
    std::vector<detail::NodePtr> open{y.grad_fn()};
    while (!open.empty()) {
      const auto node = open.back();
      open.pop_back();
      if (node == nullptr || !seen.insert(node.get()).second) {
        continue;
      }
      nodes.emplace_back(node->name(), detail::WeakNode(node));
      for (const auto& edge : node->next_edges()) {
        open.push_back(edge.function);
      }
    }
    EXPECT_GT(nodes.size(), 1U);
  }
  std::vector<std::string> alive;
  for (const auto& [name, node] : nodes) {
    if (node.lock()) {
      alive.push_back(name);
    }
  }
  return alive;
}

void expect_same_and_dies(const Fn& plain, const Fn& ours, const at::Tensor& x) {
  EXPECT_TRUE(bitwise_equal(plain(x), ours(x)));
  EXPECT_EQ(surviving_nodes(ours, x), std::vector<std::string>());
}

class UpstreamNested : public ::testing::TestWithParam<bool> {
 protected:
  CheckpointOptions options() const { return {.early_stop = GetParam()}; }
  Fn region(const Fn& fn) const {
    return
        [fn, options = options()](at::Tensor x) { return checkpoint(options, fn, std::move(x)); };
  }
};

INSTANTIATE_TEST_SUITE_P(EarlyStop, UpstreamNested, ::testing::Bool(), [](const auto& param_info) {
  return param_info.param ? "On" : "Off";
});

TEST_P(UpstreamNested, NineNestingsWithDerivativesEqualPlainAndDie) {
  const auto c = [this](const Fn& fn) { return region(fn); };
  const auto g = gradient_of;
  const Fn chain = [](at::Tensor x) { return x.sin().exp().sin(); };
  const Fn differentiates_inside = [](at::Tensor x) {
    auto a = x.sin().exp().sin();
    auto b = x.sin().exp().sin();
    auto of_a = torch::autograd::grad({a}, {x})[0];
    auto of_b = torch::autograd::grad({b}, {x})[0];
    EXPECT_TRUE(bitwise_equal(of_a, of_b));
    return x.sin();
  };
  auto x = torch::tensor(0.7F, at::requires_grad());
  for (const auto& fn : {chain, differentiates_inside}) {
    const std::vector<std::pair<Fn, std::vector<Fn>>> cases{
        {fn, {c(fn), c(c(fn))}},
        {g(fn), {g(c(fn)), g(c(c(fn)))}},
        {g(g(fn)), {g(c(g(fn))), c(g(g(c(fn)))), g(c(g(c(fn))))}},
        {g(g(g(fn))), {g(c(g(g(c(fn))))), g(c(g(c(g(c(fn))))))}}};
    for (size_t i = 0; i < cases.size(); ++i) {
      for (size_t j = 0; j < cases[i].second.size(); ++j) {
        SCOPED_TRACE(c10::str("derivative ", i, ", nesting ", j));
        expect_same_and_dies(cases[i].first, cases[i].second[j], x);
      }
    }
  }
}

TEST_P(UpstreamNested, TwoRegionsInsideARegionGivePlainDerivativesAndDie) {
  const auto c = [this](const Fn& fn) { return region(fn); };
  const auto g = [](const Fn& fn) { return gradient_of(sum_of(fn)); };
  const Fn first = [](at::Tensor x) { return x.sin().exp().sin(); };
  const Fn second = [](at::Tensor x) { return x.cos().sin().exp(); };
  const Fn plain = [=](at::Tensor x) { return second(first(x)); };
  const Fn children = [=](at::Tensor x) { return c(second)(c(first)(x)); };
  auto x = torch::randn({3, 3}, at::requires_grad());
  expect_same_and_dies(g(plain), g(c(children)), x);
  expect_same_and_dies(g(g(plain)), g(g(c(children))), x);
  expect_same_and_dies(g(g(plain)), g(c(g(c(children)))), x);
}

TEST_P(UpstreamNested, NumbersAndCallablesAsArgumentsGivePlainGradients) {
  const auto fn = [](int factor, at::Tensor a, at::Tensor b, Fn last) {
    return std::tuple<at::Tensor, int, std::string>(last(factor * a * b.exp()), 1, "abcd");
  };
  const Fn sine = [](at::Tensor x) { return x.sin(); };
  auto a = torch::tensor(2.0F, at::requires_grad());
  auto b = torch::tensor(3.0F, at::requires_grad());
  const auto plain = std::get<0>(fn(3, a, b, sine));
  const auto ours = checkpoint(options(), fn, 3, a, b, sine);
  EXPECT_EQ(std::get<1>(ours), 1);
  EXPECT_EQ(std::get<2>(ours), "abcd");
  expect_bitwise_equal(torch::autograd::grad({plain}, {a, b}),
                       torch::autograd::grad({std::get<0>(ours)}, {a, b}));
}

/// Calls back after a node has run.
struct AfterNode final : torch::autograd::FunctionPostHook {
  explicit AfterNode(std::function<void()> callback) : then(std::move(callback)) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    then();
    return outputs;
  }
  std::function<void()> then;
};

TEST_P(UpstreamNested, BackwardRunsOnTheGraphOfForward) {
  auto x = torch::tensor(1.0F, at::requires_grad());
  auto y = region([](at::Tensor a) { return a.sin().cos().sin(); })(x);
  size_t calls = 0;
  y.grad_fn()->next_edge(0).function->add_post_hook(
      std::make_unique<AfterNode>([&calls] { ++calls; }));
  y.backward();
  EXPECT_EQ(calls, 1U);
}

TEST_P(UpstreamNested, ABackwardInsideABackwardOfTheSameRegionRuns) {
  auto x = torch::tensor(1.0F, at::requires_grad());
  const auto fn = [](at::Tensor a) {
    auto middle = a.sin().cos();
    return std::pair(middle, middle.sin());
  };
  const auto gradient = [&x](std::pair<at::Tensor, at::Tensor> results) {
    x.mutable_grad() = at::Tensor();
    // By reference: a copy in the hook would tie the graph to itself.
    results.second.grad_fn()->add_post_hook(std::make_unique<AfterNode>(
        [&results] { results.first.backward({}, /*retain_graph=*/true); }));
    results.second.backward({}, /*retain_graph=*/true);
    return x.grad();
  };
  EXPECT_TRUE(bitwise_equal(gradient(fn(x)), gradient(checkpoint(options(), fn, x))));
}

/// How often `fn`, which counts, runs its counted part in forward and backward.
size_t counted_runs(const CheckpointOptions& options,
                    const std::function<at::Tensor(at::Tensor, size_t&)>& fn) {
  size_t runs = 0;
  auto x = torch::tensor(1.0F, at::requires_grad());
  checkpoint(
      options, [&](at::Tensor a) { return fn(a, runs); }, x)
      .backward();
  EXPECT_TRUE(x.grad().defined());
  return runs;
}

// The option of the region decides; there is no process-wide override of it.
TEST(UpstreamNestedEarlyStop, SkipsWhatFollowsTheLastSavedTensorByDefault) {
  const auto fn = [](at::Tensor x, size_t& clones) {
    auto y = x.sin().cos();
    ++clones;
    return y.clone();
  };
  EXPECT_EQ(counted_runs({}, fn), 1U);
  EXPECT_EQ(counted_runs({.early_stop = true}, fn), 1U);
  EXPECT_EQ(counted_runs({.early_stop = false}, fn), 2U);
}

TEST(UpstreamNestedEarlyStop, StopsBeforeTheKernelIfOnlyTheInputIsSaved) {
  KernelCalls sines("aten", "sin");
  const auto fn = [](at::Tensor x, size_t& entered) {
    ++entered;
    return x.sin();
  };
  EXPECT_EQ(counted_runs({}, fn), 2U);
  EXPECT_EQ(sines.get(), 1U);
  sines.reset();
  EXPECT_EQ(counted_runs({.early_stop = false}, fn), 2U);
  EXPECT_EQ(sines.get(), 2U);
}

TEST(UpstreamNestedEarlyStop, NothingRunsAgainIfNothingIsSaved) {
  const auto fn = [](at::Tensor x, size_t& entered) {
    ++entered;
    return x.clone();
  };
  EXPECT_EQ(counted_runs({}, fn), 1U);
  EXPECT_EQ(counted_runs({.early_stop = false}, fn), 1U);
}

}  // namespace
}  // namespace reprise::testing
