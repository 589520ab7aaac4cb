// What keeping does to a region: kept results come back without being computed again, and
// everything else is the same to the last bit.
#include "support/bitwise.h"
#include "support/policy_step.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace reprise::testing {
namespace {

using policy::save_ops;

int kernel_runs = 0;

/// A fused operator as another library would have it: a tensor, an integer and a number come out.
std::tuple<at::Tensor, int64_t, double> scale_kernel(const at::Tensor& x) {
  ++kernel_runs;
  const auto factor = x.abs().max().item<double>();
  return {x * factor, x.size(0), factor};
}

std::tuple<at::Tensor, int64_t, double> call_scale(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("reprise_test::scale", "")
                             .typed<std::tuple<at::Tensor, int64_t, double>(const at::Tensor&)>();
  return op.call(x);
}

struct ScaleFunction : torch::autograd::Function<ScaleFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, size, factor] = call_scale(x);
    context->saved_data["factor"] = factor * static_cast<double>(size);
    context->save_for_backward({y});
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    return {grads[0] * context->saved_data["factor"].toDouble() +
            context->get_saved_variables()[0] * 0};
  }
};

std::vector<at::Tensor> halves_kernel(const at::Tensor& x) {
  ++kernel_runs;
  return {x.narrow(0, 0, 1).clone(), x.narrow(0, 1, 1).clone()};
}

TORCH_LIBRARY(reprise_test, m) {
  m.def("scale(Tensor x) -> (Tensor, int, float)");
  m.def("halves(Tensor x) -> Tensor[]");
}
TORCH_LIBRARY_IMPL(reprise_test, CPU, m) {
  m.impl("scale", &scale_kernel);
  m.impl("halves", &halves_kernel);
}

TEST(KeptResults, FactoriesAndViewsMayBeNamedAndAreMadeAgain) {
  expect_equal_to_plain(
      [](at::Tensor x) {
        return x * torch::ones({4, 4}).tril() + torch::arange(4);
      },
      keep_all());
  expect_equal_to_plain(
      [](at::Tensor x) { return x.t().contiguous().view({16}).sin().unsqueeze(0); }, keep_all());
  expect_equal_to_plain([](at::Tensor x) { return x.t().exp(); }, save_ops({"aten::t"}));
}

TEST(KeptResults, ListOutputsComeBack) {
  const auto sum_of = [](const std::vector<at::Tensor>& parts) {
    auto sum = parts[0].exp();
    for (size_t i = 1; i < parts.size(); ++i) {
      sum = sum + parts[i].sin() * static_cast<double>(i);
    }
    return sum;
  };
  expect_equal_to_plain([&](at::Tensor x) { return sum_of(x.exp().split(1)); },
                        save_ops({"aten::split"}));
  expect_equal_to_plain([&](at::Tensor x) { return sum_of(x.exp().unbind()); }, keep_all());
  expect_equal_to_plain([&](at::Tensor x) { return sum_of(at::split_copy(x.exp(), 1)); },
                        save_ops({"aten::split_copy.Tensor"}));
  expect_equal_to_plain([&](at::Tensor x) { return sum_of(at::unbind_copy(x.exp())); },
                        save_ops({"aten::unbind_copy"}));
}

TEST(KeptResults, SeveralOutputsComeBack) {
  expect_equal_to_plain(
      [](at::Tensor x) {
        const auto [variance, mean] = torch::var_mean(x.exp(), 1);
        return variance.sqrt() * mean;
      },
      save_ops({"aten::var_mean"}));
  expect_equal_to_plain(
      [](at::Tensor x) {
        return std::get<0>(torch::native_layer_norm(x, {4}, {}, {}, 1e-5)).exp();
      },
      keep_all());
}

TEST(KeptResults, OperatorOfAnotherLibraryRunsOnceAndGivesItsNumbersBack) {
  const Fn fn = [](at::Tensor x) { return ScaleFunction::apply(x.sin()).cos(); };
  expect_equal_to_plain(fn, save_ops({"reprise_test::scale"}));
  kernel_runs = 0;
  step(fn, save_ops({"reprise_test::scale"}));
  EXPECT_EQ(kernel_runs, 1);
  kernel_runs = 0;
  step(fn, policy::full());
  EXPECT_EQ(kernel_runs, 2);
}

TEST(KeptResults, OperatorOfAnotherLibraryCountsAsTheClassItIsDeclared) {
  register_op_class("reprise_test::scale", OpClass::Attention);
  kernel_runs = 0;
  step([](at::Tensor x) { return ScaleFunction::apply(x.sin()).cos(); }, policy::save_attention());
  EXPECT_EQ(kernel_runs, 1);
}

TEST(KeptResults, TensorListOfAnotherLibraryComesBack) {
  const auto halves = c10::Dispatcher::singleton()
                          .findSchemaOrThrow("reprise_test::halves", "")
                          .typed<std::vector<at::Tensor>(const at::Tensor&)>();
  const Fn fn = [halves](at::Tensor x) {
    const auto parts = halves.call(x.detach());
    return x.exp() * parts[0] + x.sin() * parts[1];
  };
  kernel_runs = 0;
  const auto kept = step(fn, save_ops({"reprise_test::halves"}));
  EXPECT_EQ(kernel_runs, 1);
  EXPECT_TRUE(bitwise_equal(kept.gradient, step(fn, nullptr).gradient));
}

TEST(KeptResults, AreReplayedAnyNumberOfTimes) {
  const Fn fn = [](at::Tensor x) { return ScaleFunction::apply(x.sin()).cos(); };
  const auto x = input();
  kernel_runs = 0;
  const auto y = checkpoint({.policy = save_ops({"reprise_test::scale"})}, fn, x);
  const auto first = torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true)[0];
  const auto second = torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true)[0];
  const auto third = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_EQ(kernel_runs, 1);
  EXPECT_TRUE(bitwise_equal(first, second));
  EXPECT_TRUE(bitwise_equal(first, third));
}

TEST(KeptResults, DoubleBackwardIsBitwiseEqualToPlain) {
  const auto w = torch::linspace(-1, 1, 16).reshape({4, 4}).requires_grad_();
  const auto penalty = [&w](const std::shared_ptr<const Policy>& policy) {
    const auto x = input();
    const Fn fn = [w](at::Tensor t) { return torch::mm(torch::mm(t, w).tanh(), w).sigmoid(); };
    const auto y = policy ? checkpoint({.policy = policy}, fn, x) : fn(x);
    const auto gradient =
        torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
    return torch::autograd::grad({gradient.square().sum()}, {x, w});
  };
  const auto plain = penalty(nullptr);
  expect_bitwise_equal(plain, penalty(policy::save_matmuls()));
  expect_bitwise_equal(plain, penalty(keep_all()));
}

TEST(KeptResults, InPlaceOperatorsOnThemAndOnTheirViewsDoNotSpoilThem) {
  const auto w = torch::linspace(-1, 1, 16).reshape({4, 4});
  expect_equal_to_plain([w](at::Tensor x) { return torch::mm(x, w).add_(1).sigmoid_(); },
                        policy::save_matmuls());
  expect_equal_to_plain(
      [w](at::Tensor x) {
        auto y = torch::mm(x, w);
        auto z = y.clone();
        y.select(0, 0).mul_(3);
        y.t().relu_();
        return y.sin() + z;
      },
      policy::save_matmuls());
}

TEST(KeptResults, ChangedAfterTheRegionIsAnError) {
  const auto w = torch::linspace(-1, 1, 16).reshape({4, 4});
  const auto x = input();
  const auto y = checkpoint(
      {.policy = policy::save_matmuls()},
      [w](const at::Tensor& t) {
        const auto product = torch::mm(t.sin(), w);
        return std::pair(product, product.sin());
      },
      x);
  {
    const torch::NoGradGuard no_grad;
    y.first.zero_();
  }
  EXPECT_TRUE(
      contains(message_of<c10::Error>([&] { y.second.sum().backward(); }), "inplace operation"));
}

TEST(KeptResults, ThatAutogradDoesNotSaveAreGuardedToo) {
  const auto w = torch::linspace(-1, 1, 16).reshape({4, 4});
  // mm saves its arguments and exp its result: nobody but the policy needs the product.
  const auto outputs = checkpoint(
      {.policy = policy::save_matmuls()},
      [w](const at::Tensor& t) {
        const auto product = torch::mm(t.sin(), w);
        return std::pair(product.detach(), product.exp());
      },
      input());
  outputs.first.zero_();
  const auto message = message_of<c10::Error>([&] { outputs.second.sum().backward(); });
  EXPECT_TRUE(contains(message, "aten::mm (call #0"));
  EXPECT_TRUE(contains(message, "save_matmuls(1)"));
}

TEST(KeptResults, ACallbackThatThrowsLeavesNoStateBehind) {
  const Fn fn = [](at::Tensor x) { return x.exp().sin(); };
  const auto throwing = policy::from([](const OpContext& op) -> Decision {
    TORCH_CHECK(op.name != "aten::sin", "no sines");
    return Decision::Keep;
  });
  EXPECT_TRUE(contains(
      message_of<c10::Error>([&] { checkpoint({.policy = throwing}, fn, input()); }), "no sines"));
  expect_equal_to_plain(fn, keep_all());
  expect_equal_to_plain(fn, nullptr);
}

TEST(NestedPolicies, TheInnermostAloneApplies) {
  std::vector<std::string> outer_saw, inner_saw;
  const auto spy = [](std::vector<std::string>& names) {
    return policy::from([&names](const OpContext& op) {
      names.emplace_back(op.name);
      return Decision::Keep;
    });
  };
  const auto run = [&](const std::shared_ptr<const Policy>& inner) {
    outer_saw.clear();
    inner_saw.clear();
    const Fn in = [](at::Tensor x) { return x.sin().exp(); };
    const Fn out = [&](at::Tensor x) { return checkpoint({.policy = inner}, in, x.cos()).tanh(); };
    return step(out, spy(outer_saw));
  };
  const auto with_inner = run(spy(inner_saw));
  EXPECT_EQ(outer_saw, (std::vector<std::string>{"aten::cos", "aten::tanh"}));
  EXPECT_EQ(inner_saw[0], "aten::sin");
  EXPECT_EQ(inner_saw[1], "aten::exp");
  const auto without = run(nullptr);
  EXPECT_EQ(outer_saw, (std::vector<std::string>{"aten::cos", "aten::tanh"}));
  const auto plain = step([](at::Tensor x) { return x.cos().sin().exp().tanh(); }, nullptr);
  EXPECT_TRUE(bitwise_equal(with_inner.gradient, plain.gradient));
  EXPECT_TRUE(bitwise_equal(without.gradient, plain.gradient));
}

}  // namespace
}  // namespace reprise::testing
