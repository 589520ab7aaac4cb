// Tensors changed in place where backward still needs them: an error wherever plain autograd gives
// one, and where only checkpointing needs them. What plain autograd allows works, kept results
// included.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

using CheckpointableStep = std::function<at::Tensor(const at::Tensor& x, bool checkpointed)>;

/// Runs `step` plainly and checkpointed; both must fail in backward for the same reason.
void expect_both_fail(const CheckpointableStep& step, const std::string& ours) {
  constexpr auto kReason = "modified by an inplace operation";
  for (const bool checkpointed : {false, true}) {
    const auto y = step(float_leaf({3, 3}), checkpointed);
    const auto message = message_of<c10::Error>([&] { y.sum().backward(); });
    EXPECT_TRUE(contains(message, kReason));
    if (checkpointed) {
      EXPECT_TRUE(contains(message, ours));
    }
  }
}

/// Runs `step` plainly and checkpointed; both must work and agree.
void expect_both_agree(const CheckpointableStep& step) {
  const auto plain = float_leaf({3, 3}), ours = float_leaf({3, 3});
  step(plain, false).sum().backward();
  step(ours, true).sum().backward();
  EXPECT_TRUE(bitwise_equal(plain.grad(), ours.grad()));
}

template <class Fn>
at::Tensor call(bool checkpointed, Fn fn, const at::Tensor& x) {
  return checkpointed ? checkpoint({.name = "mutant"}, fn, x) : fn(x);
}

TEST(Mutation, AnInputChangedAfterTheRegionIsAnError) {
  const auto x = float_leaf({3, 3});
  for (const auto& change :
       std::vector<std::function<void(at::Tensor)>>{[](at::Tensor t) { t.add_(1); },
                                                    [](at::Tensor t) { t.narrow(0, 0, 1).zero_(); },
                                                    [](at::Tensor t) { t.detach().mul_(2); }}) {
    const auto h = x * 2;
    // Plain autograd would not need h again: recompute does.
    const auto y = checkpoint(
        {.name = "mutant"}, [](at::Tensor t) { return (t + 1).exp(); }, h);
    change(h);
    const auto message = message_of<CheckpointError>([&] { y.sum().backward(); });
    EXPECT_TRUE(contains(message, "input tensor #0 of region \"mutant\" was changed in place"));
  }
}

TEST(Mutation, TheSecondInputIsNamedByItsNumber) {
  const auto x = float_leaf({3, 3});
  const auto scale = torch::ones({3, 3});
  const auto y = checkpoint([](at::Tensor t, at::Tensor s) { return (t + s).exp(); }, x, scale);
  scale.add_(1);
  EXPECT_TRUE(
      contains(message_of<CheckpointError>([&] { y.sum().backward(); }), "input tensor #1"));
}

TEST(Mutation, AnInputMayBeChangedInsideTheRegion) {
  expect_both_agree([](const at::Tensor& x, bool checkpointed) {
    return call(
        checkpointed, [](at::Tensor t) { return t.mul_(2).exp(); }, x * 1);
  });
}

TEST(Mutation, AParameterChangedBetweenForwardAndBackwardIsAnError) {
  torch::nn::Linear linear(3, 3);
  expect_both_fail(
      [&](const at::Tensor& x, bool checkpointed) {
        auto fn = [linear](at::Tensor h) mutable { return linear(h.sin()); };
        const auto y = call(checkpointed, fn, x);
        torch::NoGradGuard no_grad;
        linear->weight.sub_(0.1);
        return y;
      },
      "region \"mutant\"");
}

TEST(Mutation, AnOptimizerStepBetweenForwardAndBackwardIsAnError) {
  // LibTorch's optimizers write through .data(), which moves no version counter: plain autograd
  // does not notice, and takes the new weight.
  torch::nn::Linear linear(3, 3);
  torch::optim::SGD optimizer(linear->parameters(), 0.1);
  const auto x = float_leaf({3, 3});
  auto fn = [linear](at::Tensor h) mutable { return linear(h.sin()); };
  const auto y = checkpoint(fn, x).sum();
  linear->weight.mutable_grad() = torch::ones_like(linear->weight);
  optimizer.step();
  const auto message = message_of<CheckpointError>([&] { y.backward(); });
  EXPECT_TRUE(contains(message, "modified by an inplace operation since forward"));
}

TEST(Mutation, ATensorSavedAndThenChangedInsideTheRegionIsAnError) {
  expect_both_fail(
      [](const at::Tensor& x, bool checkpointed) {
        return call(
            checkpointed,
            [](at::Tensor h) {
              auto y = h.exp();  // saves its result
              y.add_(1);
              return y.sin();
            },
            x);
      },
      "saved in region \"mutant\" by ExpBackward0");
}

TEST(Mutation, AnOutputChangedAfterTheRegionIsAnErrorWhereItWasSaved) {
  expect_both_fail(
      [](const at::Tensor& x, bool checkpointed) {
        const auto y = call(
            checkpointed, [](at::Tensor h) { return h.sin().exp(); }, x);
        y.add_(1);
        return y;
      },
      "saved in region \"mutant\" by ExpBackward0");
}

TEST(Mutation, AnOutputChangedAfterTheRegionIsFineWhereItWasNot) {
  expect_both_agree([](const at::Tensor& x, bool checkpointed) {
    const auto y = call(
        checkpointed, [](at::Tensor h) { return h.exp().sin(); }, x);
    y.mul_(3);
    return y.relu_();
  });
}

TEST(Mutation, AChangeAfterBackwardIsFine) {
  torch::nn::Linear linear(3, 3);
  torch::optim::SGD optimizer(linear->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    const auto h = float_leaf({3, 3}) * 2;
    auto fn = [linear](at::Tensor t) mutable { return linear(t).sin(); };
    EXPECT_NO_THROW(checkpoint(fn, h).sum().backward());
    optimizer.step();
    torch::NoGradGuard no_grad;
    h.zero_();
  }
}

TEST(Mutation, AKeptResultChangedInsideTheRegionIsCopiedFirst) {
  const CheckpointOptions keep{.policy = policy::save_matmuls()};
  const std::vector<std::function<at::Tensor(at::Tensor)>> bodies{
      [](at::Tensor h) { return torch::mm(h, h.sin()).add_(1).exp(); },
      [](at::Tensor h) {
        auto y = torch::mm(h, h.sin());
        y.select(0, 1).mul_(2);
        y.relu_();
        return torch::mm(y, y).sin();
      },
      [](at::Tensor h) {
        auto y = torch::mm(h, h.sin()).t();
        y.add_(h);
        y.mul_(0.5);
        return y.exp();
      }};
  for (const auto& fn : bodies) {
    const auto plain = float_leaf({3, 3}), ours = float_leaf({3, 3});
    fn(plain).sum().backward();
    const auto y = checkpoint(keep, fn, ours).sum();
    y.backward({}, /*retain_graph=*/true);
    EXPECT_TRUE(bitwise_equal(plain.grad(), ours.grad()));
    // Replayed again: the first replay must not have changed what is kept.
    ours.mutable_grad() = at::Tensor();
    y.backward();
    EXPECT_TRUE(bitwise_equal(plain.grad(), ours.grad()));
  }
}

TEST(Mutation, AKeptResultChangedAfterTheRegionIsAnErrorThatNamesTheOperator) {
  const auto x = float_leaf({3, 3});
  const CheckpointOptions keep{.policy = policy::save_matmuls(), .name = "keeper"};
  const auto y = checkpoint(
      keep,
      [](at::Tensor h) {
        const auto product = torch::mm(h.sin(), h);
        return std::make_pair(product, product.exp());
      },
      x);
  y.first.add_(1);
  const auto message = message_of<c10::Error>([&] { y.second.sum().backward(); });
  EXPECT_TRUE(contains(message, "aten::mm"));
  EXPECT_TRUE(contains(message, "changed in place"));
  EXPECT_TRUE(contains(message, "keeper"));
}

TEST(Mutation, LinearOnThreeDimensionsWithBiasEqualsPlainUnderSaveMatmuls) {
  // Its bias is added in place, to a hidden view of the product.
  const auto run = [](const CheckpointOptions* options) {
    torch::manual_seed(2);
    torch::nn::Linear first(4, 8), second(8, 4);
    auto x = torch::randn({2, 3, 4}).set_requires_grad(true);
    auto fn = [first, second](at::Tensor h) mutable { return second(first(h).relu()).tanh(); };
    auto h = x;
    for (int i = 0; i < 2; ++i) {
      h = options != nullptr ? checkpoint(*options, fn, h) : fn(h);
    }
    h.square().sum().backward();
    return std::vector<at::Tensor>{h,
                                   x.grad(),
                                   first->weight.grad(),
                                   first->bias.grad(),
                                   second->weight.grad(),
                                   second->bias.grad()};
  };
  const auto plain = run(nullptr);
  for (const auto& policy : {policy::save_matmuls(), policy::save_matmuls(2)}) {
    for (const auto check : {DeterminismCheck::Metadata, DeterminismCheck::Values}) {
      const CheckpointOptions options{.determinism_check = check, .policy = policy};
      expect_bitwise_equal(plain, run(&options));
    }
  }
}

TEST(Mutation, IsCheckedInNestedRegionsToo) {
  const auto x = float_leaf({3, 3});
  const auto captured = torch::ones({3, 3});
  const auto inner = [captured](at::Tensor h) { return (h * captured).exp(); };
  const auto outer = [inner](at::Tensor h) {
    return checkpoint({.name = "inner"}, inner, h.sin());
  };
  const auto y = checkpoint({.name = "outer"}, outer, x);
  captured.add_(1);
  const auto message = message_of<CheckpointError>([&] { y.sum().backward(); });
  EXPECT_TRUE(contains(message, "region \"inner\""));
}

}  // namespace
}  // namespace reprise::testing
