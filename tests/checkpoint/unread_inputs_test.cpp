// Inputs that no recompute reads are not held: Note [Inputs that no recompute reads]. Bytes are
// counted in tensors, and values compared with the same program without regions.
#include "checkpoint/counted_tensors.h"
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"
#include "support/error_text.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

double sum_of_memory(const at::Tensor& tensor) {
  const auto* begin = tensor.const_data_ptr<float>();
  return std::accumulate(begin, begin + tensor.numel(), 0.0);
}

using OfTwo = std::function<at::Tensor(at::Tensor a, at::Tensor b)>;

/// Activations that only the region holds: x + 1 and x * 2.
struct Made {
  explicit Made(const at::Tensor& x) : first(x + 1), second(x * 2) {}
  at::Tensor first, second;
};

/// Live tensors after forward, beside `x`.
int64_t held_with(const CheckpointOptions& options, const OfTwo& fn, const at::Tensor& x) {
  const auto before = live_bytes(c10::kCPU);
  auto made = std::make_unique<Made>(x);
  const auto y = checkpoint(options, fn, made->first, made->second);
  made.reset();
  return in_tensors(live_bytes(c10::kCPU) - before);
}

/// The gradient of `x` through the region, in two backward calls over one graph.
at::Tensor two_input_gradient(const OfTwo& call, const at::Tensor& x) {
  const auto y = [&] {
    const Made made(x);
    return call(made.first, made.second);
  }();
  auto once = torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true)[0];
  EXPECT_TRUE(bitwise_equal(once, torch::autograd::grad({y.sum()}, {x})[0]));
  return once;
}

void expect_held(const OfTwo& fn, int64_t expected, const CheckpointOptions& options = {}) {
  const auto x = counted_input();
  EXPECT_EQ(held_with(options, fn, x), expected);
  const auto region = [&](const at::Tensor& a, const at::Tensor& b) {
    return checkpoint(options, fn, a, b);
  };
  EXPECT_TRUE(bitwise_equal(two_input_gradient(fn, x), two_input_gradient(region, x)));
}

// An output and the input that is read are two tensors.
constexpr int64_t kOneReleased = 2;
constexpr int64_t kBothHeld = 3;

TEST(UnreadInputs, OneThatIsReadAfterTheLastSavedTensor) {
  const OfTwo fn = [](const at::Tensor& a, const at::Tensor& b) { return deep(2)(a) + b; };
  expect_held(fn, kOneReleased);
  expect_held(fn, kBothHeld, {.early_stop = false});
  const EarlyStopGuard off(false);
  expect_held(fn, kBothHeld);
}

TEST(UnreadInputs, OneThatIsReadBefore) {
  expect_held([](const at::Tensor& a, const at::Tensor& b) { return (a + b).tanh(); }, kBothHeld);
  expect_held([](const at::Tensor& a, const at::Tensor& b) { return a.tanh() * b; }, kBothHeld);
  expect_held([](const at::Tensor& a, const at::Tensor& b) { return (a + b.t()).tanh(); },
              kBothHeld);
  expect_held([](const at::Tensor& a, const at::Tensor& b) { return (a + b.detach()).tanh(); },
              kBothHeld);
}

TEST(UnreadInputs, OneOfWhichOnlyTheSizesAreUsed) {
  const OfTwo fn = [](const at::Tensor& a, const at::Tensor& b) {
    return a.tanh() * static_cast<double>(b.t().narrow(0, 1, 3).size(0)) / b.dim();
  };
  expect_held(fn, kOneReleased);
  expect_held(fn, kOneReleased, {.early_stop = false});
}

TEST(UnreadInputs, OneThatIsReturnedUnchanged) {
  const auto x = counted_input();
  const auto run = [&x](const auto& region) {
    const auto before = live_bytes(c10::kCPU);
    auto made = std::make_unique<Made>(x);
    auto [y, same] = region(made->first, made->second);
    made.reset();
    auto sum = y.sum();
    y.reset();
    same.reset();
    const auto held = in_tensors(live_bytes(c10::kCPU) - before);
    return std::pair(held, torch::autograd::grad({sum}, {x})[0]);
  };
  const auto fn = [](const at::Tensor& a, const at::Tensor& b) { return std::pair(a.tanh(), b); };
  const auto [held, gradient] =
      run([&fn](const auto& a, const auto& b) { return checkpoint(fn, a, b); });
  EXPECT_EQ(held, 1);
  EXPECT_TRUE(bitwise_equal(gradient, run(fn).second));
}

TEST(UnreadInputs, MayBeChangedAfterForward) {
  const OfTwo fn = [](const at::Tensor& a, const at::Tensor& b) { return deep(2)(a) + b; };
  const auto run = [](const OfTwo& region) {
    const auto x = counted_input();
    const Made made(x);
    const auto y = region(made.first, made.second);
    made.second.mul_(3);
    return torch::autograd::grad({(y * made.second).sum()}, {x})[0];
  };
  EXPECT_TRUE(bitwise_equal(
      run(fn), run([&fn](const auto& a, const auto& b) { return checkpoint(fn, a, b); })));
}

TEST(UnreadInputs, DoubleBackward) {
  const OfTwo fn = [](const at::Tensor& a, const at::Tensor& b) { return a.tanh().exp() + b; };
  const auto second = [](const OfTwo& region) {
    const auto x = double_leaf({4, 4}, 1);
    const auto y = [&] {
      const Made made(x);
      return region(made.first, made.second.sin());
    }();
    const auto first = torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    return torch::autograd::grad({first.square().sum()}, {x})[0];
  };
  EXPECT_TRUE(bitwise_equal(
      second(fn), second([&fn](const auto& a, const auto& b) { return checkpoint(fn, a, b); })));
}

TEST(UnreadInputs, OfARegionWithRegionsInside) {
  // The outer one's last save is the input of the inner region, which comes before b is read.
  expect_held(
      [](const at::Tensor& a, const at::Tensor& b) { return checkpoint(deep(3), a.exp()) + b; },
      kOneReleased);
  // The inner region saves b as its own input, though it does not need it.
  expect_held(
      [](const at::Tensor& a, const at::Tensor& b) {
        return checkpoint(
            [](const at::Tensor& h, const at::Tensor& g) { return deep(2)(h) + g; }, a.exp(), b);
      },
      kBothHeld);
}

TEST(UnreadInputs, WithAPolicyAndWithDraws) {
  const OfTwo fn = [](const at::Tensor& a, const at::Tensor& b) {
    return torch::dropout(a.tanh(), 0.5, true) + b;
  };
  const auto x = counted_input();
  EXPECT_EQ(held_with({}, fn, x), kOneReleased);
  const OfTwo product = [](const at::Tensor& a, const at::Tensor& b) {
    return torch::mm(a, a).tanh() + b;
  };
  expect_held(product, kOneReleased + 1, {.policy = policy::save_matmuls()});
}

TEST(UnreadInputs, AreHeldWhereReadsMayBeHidden) {
  struct Raw : torch::autograd::Function<Raw> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input) {
      auto result = torch::empty({kSide, kSide});
      std::copy_n(input.data_ptr<float>(), input.numel(), result.data_ptr<float>());
      context->save_for_backward({result});
      return result;
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list gradients) {
      return {gradients[0] * context->get_saved_variables()[0]};
    }
  };
  expect_held([](const at::Tensor& a, const at::Tensor& b) { return a.tanh() + Raw::apply(b); },
              kBothHeld);
  // An operator of another library without a key of its own: a composite to LibTorch.
  const auto sum = c10::Dispatcher::singleton()
                       .findSchemaOrThrow("unread::sum_of_memory", "")
                       .typed<double(const at::Tensor&)>();
  expect_held([sum](const at::Tensor& a, const at::Tensor& b) { return (a * sum.call(b)).tanh(); },
              kBothHeld);
}

TEST(UnreadInputs, AreHeldIfTheyAreWritten) {
  const auto x = counted_input();
  const OfTwo fn = [](const at::Tensor& a, const at::Tensor& b) {
    b.mul_(2);
    return a.tanh() + b;
  };
  EXPECT_GE(held_with({}, fn, x), kBothHeld);
}

TEST(UnreadInputs, AreHeldIfTheyShareTheirMemory) {
  const OfTwo fn = [](const at::Tensor& a, const at::Tensor& b) { return deep(2)(a) + b; };
  const auto x = counted_input();
  const auto before = live_bytes(c10::kCPU);
  auto made = std::make_unique<Made>(x);
  const auto y = checkpoint(fn, made->first, made->first.t());
  made.reset();
  EXPECT_EQ(in_tensors(live_bytes(c10::kCPU) - before), 2);
  y.sum().backward();
}

TEST(UnreadInputs, AReadThatForwardDidNotDoIsAnErrorByName) {
  const auto x = counted_input();
  const auto backward = [&x](const std::function<void(const at::Tensor&)>& read) {
    checkpoint(
        {.name = "residual"},
        [read](const at::Tensor& a, const at::Tensor& b) {
          if (is_recomputing()) {
            read(b);
          }
          return a.tanh() + b;
        },
        x + 1,
        x * 2)
        .sum()
        .backward();
  };
  const auto expect_named = [&](const std::function<void(const at::Tensor&)>& read) {
    const auto message = message_of<c10::Error>([&] { backward(read); });
    EXPECT_TRUE(contains(message, "region \"residual\""));
    EXPECT_TRUE(contains(message, "input tensor #1"));
  };
  expect_named([](const at::Tensor& b) { b.exp(); });
  expect_named([](const at::Tensor& b) { b.t().contiguous(); });
  expect_named([](const at::Tensor& b) { b.sum().item<float>(); });
  expect_named([](const at::Tensor& b) { b.data_ptr(); });
  expect_named([](const at::Tensor& b) { checkpoint(deep(2), b); });
  const auto written =
      message_of<c10::Error>([&] { backward([](const at::Tensor& b) { b.detach().mul_(2); }); });
  EXPECT_TRUE(contains(written, "region \"residual\" did different work"));
  // Even if the callable goes on.
  expect_named([](const at::Tensor& b) {
    try {
      b.exp();
    } catch (const c10::Error&) {
    }
  });
  EXPECT_NO_THROW(backward([](const at::Tensor& b) { b.view({-1}).size(0); }));
}

TEST(UnreadInputs, AreNotCountedAsHeld) {
  record_checkpoint_stats(true);
  reset_checkpoint_stats();
  const auto x = counted_input();
  const OfTwo fn = [](const at::Tensor& a, const at::Tensor& b) { return deep(2)(a) + b; };
  held_with({}, fn, x);
  EXPECT_EQ(in_tensors(static_cast<int64_t>(checkpoint_stats().total.bytes_unsaved)), 1);
  record_checkpoint_stats(false);
}

}  // namespace
}  // namespace reprise::testing

TORCH_LIBRARY(unread, m) {
  m.def("sum_of_memory(Tensor x) -> float", &reprise::testing::sum_of_memory);
}
