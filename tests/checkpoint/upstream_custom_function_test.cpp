// The claims of PyTorch's TestAutograd about custom functions in checkpoints
// (test/test_autograd.py). docs/upstream-tests.md says which test is which.
#include "support/bitwise.h"
#include "support/kernel_calls.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

enum class Order : uint8_t { ResultLast, ResultFirst };
enum class InForward : uint8_t { Plain, MakesNodes };

/// Doubles its argument and saves its own result, noting which storages its results had.
struct DoubleSavingResult : torch::autograd::Function<DoubleSavingResult> {
  static at::Tensor forward(AutogradContext* ctx,
                            at::Tensor x,
                            Order order,
                            InForward in_forward,
                            std::vector<WeakStorage>* seen) {
    if (in_forward == InForward::MakesNodes) {
      const torch::AutoGradMode enabled(true);
      auto leaf = x.detach().clone().set_requires_grad(true);
      torch::autograd::grad({leaf.square().sin().sum()}, {leaf});
    }
    auto result = x * 2;
    seen->push_back(result.storage().getWeakStorageImpl());
    ctx->save_for_backward(order == Order::ResultLast ? variable_list{x, result}
                                                      : variable_list{result, x});
    return result;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    ctx->get_saved_variables();
    // Again, which recomputes for each tensor by itself.
    ctx->get_saved_variables();
    return {grads[0] * 2, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

/// Storages of results that outlive a step with `tail` after the function, by number of the run.
std::vector<size_t> leaked_results(Order order, InForward in_forward, const Fn& tail) {
  std::vector<WeakStorage> seen;
  {
    auto x = torch::randn({4}, at::requires_grad());
    auto y = checkpoint(
        [&](at::Tensor h) {
          return tail(DoubleSavingResult::apply(h.sin(), order, in_forward, &seen));
        },
        x);
    y.sum().backward();
  }
  EXPECT_GT(seen.size(), 1U);
  std::vector<size_t> leaked;
  for (size_t run = 0; run < seen.size(); ++run) {
    if (!seen[run].expired()) {
      leaked.push_back(run);
    }
  }
  return leaked;
}

// A function that saves its own result holds itself until all is saved: stopping in between would
// leak.
TEST(UpstreamCustomFunction, EarlyStopInACustomFunctionThatSavesItsResultLeaksNothing) {
  const std::vector<std::pair<std::string, Fn>> tails{
      {"nothing", [](at::Tensor h) { return h; }},
      {"no save", [](at::Tensor h) { return h.clone(); }},
      {"a save", [](at::Tensor h) { return h.sin(); }}};
  for (const auto order : {Order::ResultLast, Order::ResultFirst}) {
    for (const auto in_forward : {InForward::Plain, InForward::MakesNodes}) {
      for (const auto& [name, tail] : tails) {
        EXPECT_EQ(leaked_results(order, in_forward, tail), std::vector<size_t>())
            << "order " << static_cast<int>(order) << ", forward " << static_cast<int>(in_forward)
            << ", followed by " << name;
      }
    }
  }
}

// What a custom function computed is an ordinary input to the operator after it.
TEST(UpstreamCustomFunction, EarlyStopSparesTheOperatorAfterACustomFunction) {
  for (const auto in_forward : {InForward::Plain, InForward::MakesNodes}) {
    KernelCalls logarithms("aten", "log");
    std::vector<WeakStorage> seen;
    auto x = torch::ones({4}, at::requires_grad());
    auto y = checkpoint(
        [&](at::Tensor h) {
          return DoubleSavingResult::apply(h, Order::ResultLast, in_forward, &seen).log();
        },
        x);
    y.sum().backward();
    EXPECT_GT(seen.size(), 1U);
    EXPECT_EQ(logarithms.get(), 1U);
  }
}

/// Saves three inputs, an intermediate and its result, and asks for them twice in backward.
struct UnpacksTwice : torch::autograd::Function<UnpacksTwice> {
  static at::Tensor forward(AutogradContext* ctx, at::Tensor x, at::Tensor y, at::Tensor z) {
    auto w = x * y * z;
    auto result = w + w;
    ctx->save_for_backward({x, y, z, w, result});
    return result;
  }
  static variable_list backward(AutogradContext* ctx, variable_list) {
    const auto first = ctx->get_saved_variables();
    EXPECT_EQ(first.size(), 5U);
    expect_bitwise_equal(first, ctx->get_saved_variables());
    return {first[0] + first[3], first[1] + first[4], first[2]};
  }
};

// Upstream refuses the second unpack.
TEST(UpstreamCustomFunction, ACustomFunctionMayUnpackTwiceInOneBackward) {
  const auto fn = [](at::Tensor x, at::Tensor y, at::Tensor z) {
    return UnpacksTwice::apply(x * y * z, y * y * z, z * z);
  };
  const std::vector<at::Tensor> leaves{torch::tensor(1.0F, at::requires_grad()),
                                       torch::tensor(2.0F, at::requires_grad()),
                                       torch::tensor(3.0F, at::requires_grad())};
  const auto plain = torch::autograd::grad({fn(leaves[0], leaves[1], leaves[2])}, leaves);
  const auto ours =
      torch::autograd::grad({checkpoint(fn, leaves[0], leaves[1], leaves[2])}, leaves);
  expect_bitwise_equal(plain, ours);
}

/// Passes its first argument on and saves the second, which it hands out in backward.
struct SavesSecond : torch::autograd::Function<SavesSecond> {
  static at::Tensor forward(AutogradContext* ctx, at::Tensor x, at::Tensor y, at::Tensor* seen) {
    ctx->save_for_backward({y});
    ctx->saved_data["seen"] = reinterpret_cast<int64_t>(seen);
    return x.clone();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    *reinterpret_cast<at::Tensor*>(ctx->saved_data["seen"].toInt()) = ctx->get_saved_variables()[0];
    return {grads[0], at::Tensor(), at::Tensor()};
  }
};

TEST(UpstreamCustomFunction, ASavedArgumentComesBackAsTheSameTensor) {
  auto x = torch::tensor(1.0F, at::requires_grad());
  auto y = torch::tensor(1.0F);
  at::Tensor seen;
  const auto fn = [&seen](at::Tensor a, at::Tensor b) { return SavesSecond::apply(a, b, &seen); };
  fn(x, y).backward();
  EXPECT_TRUE(seen.is_same(y));
  seen = at::Tensor();
  checkpoint(fn, x, y).backward();
  EXPECT_TRUE(seen.is_same(y));
}

}  // namespace
}  // namespace reprise::testing
