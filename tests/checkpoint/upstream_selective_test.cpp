// The claims of PyTorch's TestSelectiveActivationCheckpoint (test/test_autograd.py).
// docs/upstream-tests.md says which test is which.
#include "support/bitwise.h"
#include "support/devices.h"
#include "support/kernel_calls.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

std::shared_ptr<const Policy> keep(const std::string& name) {
  return policy::from([name](const OpContext& op) {
    return op.name == name ? Decision::Keep : Decision::Recompute;
  });
}

at::Tensor gradient(const Fn& fn, const at::Tensor& x) {
  return torch::autograd::grad({fn(x).sum()}, {x})[0];
}

struct Cost {
  double activation_mib;
  size_t backward_products;
};

Cost cost_of(c10::DeviceType device, const std::function<at::Tensor(at::Tensor, at::Tensor)>& run) {
  const auto options = torch::TensorOptions(device).requires_grad(true);
  auto x = torch::randn({512, 512}, options);
  auto y = torch::randn({512, 512}, options);
  run(x, y).backward();  // gradients and workspaces are there from now on
  KernelCalls products("aten", "mm");
  const auto before = live_bytes(device);
  auto loss = run(x, y);
  const auto bytes = live_bytes(device) - before;
  products.reset();
  loss.backward();
  return {.activation_mib = static_cast<double>(bytes) / (1 << 20),
          .backward_products = products.get()};
}

void expect_costs(c10::DeviceType device) {
  const auto fn = [](at::Tensor x, at::Tensor y) { return torch::mm(x.cos(), y).sin().sum(); };
  const auto with_policy = [&](std::shared_ptr<const Policy> policy) {
    return cost_of(device, [&](at::Tensor x, at::Tensor y) {
      return checkpoint({.policy = policy}, fn, x, y);
    });
  };
  // The loss and what malloc rounds up.
  constexpr double kSlack = 0.01;
  const auto plain = cost_of(device, fn);
  EXPECT_NEAR(plain.activation_mib, 2.0, kSlack);
  EXPECT_EQ(plain.backward_products, 2U);
  const auto full = with_policy(nullptr);
  EXPECT_NEAR(full.activation_mib, 0.0, kSlack);
  EXPECT_EQ(full.backward_products, 3U);
  for (const auto& policy : {policy::save_ops({"aten::mm"}),
                             policy::save_ops({"aten::mm.default"}),
                             policy::save_matmuls(),
                             keep("aten::mm")}) {
    SCOPED_TRACE(policy->describe());
    const auto kept = with_policy(policy);
    EXPECT_NEAR(kept.activation_mib, 1.0, kSlack);
    EXPECT_EQ(kept.backward_products, 2U);
  }
}

TEST(UpstreamSelective, BytesAndProductsAreThoseOfThePolicy) {
  expect_costs(c10::kCPU);
}

TEST(UpstreamSelective, BytesAndProductsAreThoseOfThePolicyOnGpu) {
  REPRISE_REQUIRE_CUDA();
  expect_costs(c10::kCUDA);
}

TEST(UpstreamSelective, AKeptViewOfIntegersWorks) {
  const auto numbers = torch::arange(6).reshape({2, 3});
  auto y = torch::randn({3}, at::requires_grad());
  const auto fn = [](at::Tensor a, at::Tensor b) { return std::pair(a.view({-1}), b.sin().cos()); };
  const auto [view, result] =
      checkpoint({.policy = policy::save_ops({"aten::view"})}, fn, numbers, y);
  EXPECT_TRUE(bitwise_equal(view, torch::arange(6)));
  result.sum().backward();
  EXPECT_TRUE(bitwise_equal(y.grad(), gradient([](at::Tensor b) { return b.sin().cos(); }, y)));
}

// A name without overload is refused upstream; here it means every overload.
TEST(UpstreamSelective, BadPoliciesAreRefusedAtOnce) {
  const auto message = [](const std::string& name) {
    return message_of<CheckpointError>([&] { policy::save_ops({name}); });
  };
  EXPECT_TRUE(contains(message("2"), "\"2\" is not a known operator"));
  EXPECT_TRUE(contains(message("aten::sinn"), "aten::sin"));
  EXPECT_TRUE(contains(message("aten::sin.no_such_overload"), "is not a known operator"));
  EXPECT_TRUE(contains(message_of<CheckpointError>([] { policy::save_ops({}); }),
                       "at least one operator name"));
  EXPECT_TRUE(
      contains(message_of<CheckpointError>([] { policy::from(nullptr); }), "needs a callback"));
  EXPECT_NO_THROW(policy::save_ops({"aten::sin"}));
  EXPECT_NO_THROW(policy::save_ops({"aten::sin.default"}));
}

// Upstream asks again in recompute, and a policy with state has to tell the two apart.
TEST(UpstreamSelective, APolicyWithStateIsAskedInForwardAlone) {
  std::vector<size_t> asked;
  const auto counting = policy::from([&asked](const OpContext& op) {
    EXPECT_EQ(op.name, "aten::sin");
    asked.push_back(op.call_index);
    return asked.size() == 1 ? Decision::Keep : Decision::Recompute;
  });
  const Fn fn = [](at::Tensor x) { return x.sin().sin().sin(); };
  auto x = torch::randn({3}, at::requires_grad());
  auto y = checkpoint({.policy = counting}, fn, x);
  EXPECT_EQ(asked, (std::vector<size_t>{0, 1, 2}));
  KernelCalls sines("aten", "sin");
  const auto ours = torch::autograd::grad({y.sum()}, {x})[0];
  // The first is kept, the second runs again, early stop spares the third.
  EXPECT_EQ(sines.get(), 1U);
  EXPECT_EQ(asked.size(), 3U);
  EXPECT_TRUE(bitwise_equal(ours, gradient(fn, x)));
}

/// exp is kept; nothing but the region holds it once forward has ended.
at::Tensor run_keeping_exp(const at::Tensor& x, WeakStorage& kept) {
  return checkpoint(
      {.policy = keep("aten::exp")},
      [&kept](at::Tensor h) {
        auto y = h.cos().exp();
        if (kept.expired()) {
          kept = y.storage().getWeakStorageImpl();
        }
        return y.sin();
      },
      x);
}

// Upstream drops what it kept in the first backward, retained graph or not, and cannot run a second
// one.
TEST(UpstreamSelective, AKeptResultLivesAsLongAsItsGraphCanUseIt) {
  auto x = torch::randn({3}, at::requires_grad());
  const auto forward = [&x] {
    auto kept = std::make_shared<WeakStorage>(c10::intrusive_ptr<c10::StorageImpl>());
    auto y = run_keeping_exp(x, *kept);
    EXPECT_FALSE(kept->expired());
    return std::pair(y, kept);
  };
  {
    auto [y, kept] = forward();
    y = at::Tensor();
    EXPECT_TRUE(kept->expired()) << "a graph dropped without backward";
  }
  {
    auto [y, kept] = forward();
    y.sum().backward();
    EXPECT_TRUE(kept->expired()) << "backward over";
  }
  {
    auto [y, kept] = forward();
    y.sum().backward({}, /*retain_graph=*/true);
    EXPECT_FALSE(kept->expired());
    y.sum().backward();
    EXPECT_TRUE(kept->expired()) << "second backward over";
  }
}

// Upstream raises, or replays the changed tensor if told to.
TEST(UpstreamSelective, AKeptResultChangedInsideItsRegionGivesThePlainGradient) {
  const Fn fn = [](at::Tensor x) { return x.sin().mul_(2).cos().exp(); };
  auto x = torch::randn({3}, at::requires_grad());
  const CheckpointOptions options{.policy = keep("aten::sin")};
  KernelCalls sines("aten", "sin");
  auto y = checkpoint(options, fn, x);
  EXPECT_EQ(sines.get(), 1U);
  sines.reset();
  const auto ours = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_EQ(sines.get(), 1U);  // of the derivative of cos, not of the region
  EXPECT_TRUE(bitwise_equal(ours, gradient(fn, x)));
}

TEST(UpstreamSelective, AKeptResultChangedAfterItsRegionIsAnError) {
  auto x = torch::randn({3}, at::requires_grad());
  auto [kept, y] = checkpoint(
      {.policy = keep("aten::sin")},
      [](at::Tensor h) {
        auto sine = h.sin();
        return std::pair(sine, sine.clone().cos().exp());
      },
      x);
  kept.detach().mul_(2);
  const auto message = message_of<CheckpointError>([&loss = y] { loss.sum().backward(); });
  EXPECT_TRUE(contains(message, "kept result of aten::sin"));
  EXPECT_TRUE(contains(message, "changed in place"));
}

TEST(UpstreamSelective, AnOperatorWithTwoResultsIsKept) {
  size_t asked = 0;
  const auto counting = policy::from([&asked](const OpContext& op) {
    asked += op.name == "aten::var_mean" ? 1 : 0;
    return op.name == "aten::var_mean" ? Decision::Keep : Decision::Recompute;
  });
  const Fn fn = [](at::Tensor x) {
    auto [variance, mean] = torch::var_mean(x);
    return variance * mean;
  };
  auto x = torch::randn({3}, at::requires_grad());
  KernelCalls calls("aten", "var_mean.correction");
  const auto ours =
      gradient([&](at::Tensor h) { return checkpoint({.policy = counting}, fn, h); }, x);
  EXPECT_EQ(calls.get(), 1U);
  EXPECT_EQ(asked, 1U);
  EXPECT_TRUE(bitwise_equal(ours, gradient(fn, x)));
}

// An operator of the test's own that returns a tensor and a number.
std::tuple<at::Tensor, int64_t> sin_with_extra(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("reprise_upstream_test::sin_with_extra", "")
                             .typed<std::tuple<at::Tensor, int64_t>(const at::Tensor&)>();
  return op.call(x);
}

std::tuple<at::Tensor, int64_t> sin_with_extra_cpu(const at::Tensor& x) {
  return {at::sin(x), 2};
}

struct SinWithExtra : torch::autograd::Function<SinWithExtra> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, int64_t* extra) {
    ctx->save_for_backward({x});
    const at::AutoDispatchBelowADInplaceOrView below;
    auto [result, number] = sin_with_extra(x);
    *extra = number;
    return result;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0] * ctx->get_saved_variables()[0].cos(), at::Tensor()};
  }
};

std::tuple<at::Tensor, int64_t> sin_with_extra_autograd(const at::Tensor& x) {
  int64_t extra = 0;
  auto result = SinWithExtra::apply(x, &extra);
  return {result, extra};
}

TEST(UpstreamSelective, AnOperatorThatReturnsANumberIsKept) {
  const Fn fn = [](at::Tensor x) {
    auto [result, number] = sin_with_extra(x);
    EXPECT_EQ(number, 2);
    return (result * number * x.sin().exp()).sin();
  };
  auto x = torch::randn({3}, at::requires_grad());
  const CheckpointOptions options{.policy =
                                      policy::save_ops({"reprise_upstream_test::sin_with_extra"})};
  KernelCalls calls("reprise_upstream_test", "sin_with_extra");
  const auto ours = gradient([&](at::Tensor h) { return checkpoint(options, fn, h); }, x);
  EXPECT_EQ(calls.get(), 1U);
  EXPECT_TRUE(bitwise_equal(ours, gradient(fn, x)));
}

// Upstream refuses the second backward.
TEST(UpstreamSelective, ASecondBackwardReplaysWhatWasKeptAgain) {
  const Fn fn = [](at::Tensor x) { return x.sin().cos().exp(); };
  auto x = torch::randn({3}, at::requires_grad());
  const auto plain = gradient(fn, x);
  auto y = checkpoint({.policy = keep("aten::sin")}, fn, x);
  for (int i = 0; i < 3; ++i) {
    x.mutable_grad() = at::Tensor();
    y.sum().backward({}, /*retain_graph=*/i < 2);
    EXPECT_TRUE(bitwise_equal(x.grad(), plain)) << "backward " << i;
  }
}

TORCH_LIBRARY(reprise_upstream_test, m) {
  m.def("sin_with_extra(Tensor x) -> (Tensor, int)");
}
TORCH_LIBRARY_IMPL(reprise_upstream_test, CPU, m) {
  m.impl("sin_with_extra", sin_with_extra_cpu);
}
TORCH_LIBRARY_IMPL(reprise_upstream_test, Autograd, m) {
  m.impl("sin_with_extra", sin_with_extra_autograd);
}

}  // namespace
}  // namespace reprise::testing
