// Writes to captured tensors are done once. Those that cannot be undone for a recompute are
// refused, with the region's name.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

/// Adds to a captured tensor in a region, and returns the gradients and the tensor.
std::vector<at::Tensor> add_to_captured(bool checkpointed, bool has_history) {
  const auto x = ramp_leaf({4}), root = ramp_leaf({4});
  const auto total = has_history ? root * 2 : torch::zeros({4});
  const auto fn = [total](at::Tensor h) {
    h = h * total.detach().sin();
    total.add_(h.exp());
    total.narrow(0, 1, 2).mul_(h[0]);
    return h.exp();
  };
  const auto y = checkpointed ? checkpoint({.name = "sum"}, fn, x) : fn(x);
  const auto history = total.grad_fn();
  (y.sum() + total.sin().sum()).backward();
  EXPECT_EQ(history, total.grad_fn());
  return {x.grad(), root.grad(), total.detach()};
}

TEST(CapturedWrites, ATensorMayGetAHistoryOrHaveOne) {
  for (const bool has_history : {false, true}) {
    expect_bitwise_equal(add_to_captured(false, has_history), add_to_captured(true, has_history));
  }
}

// Its forward gives no history, so the gradient would be lost.
TEST(CapturedWrites, AReentrantRegionMayNotGiveAHistory) {
  for (const bool has_history : {false, true}) {
    const auto x = ramp_leaf({4}), root = ramp_leaf({4});
    const auto total = has_history ? root * 2 : torch::zeros({4});
    const auto fn = [total](at::Tensor h) {
      total.add_(h.exp());
      return h.exp();
    };
    const auto message = message_of<CheckpointError>(
        [&] { checkpoint({.use_reentrant = true, .name = "sum"}, fn, x).sum().backward(); });
    EXPECT_TRUE(contains(message, "region \"sum\" changed a captured tensor in place"));
  }
}

TEST(CapturedWrites, ATensorWithHistoryMayBeWrittenWithoutGradAndIsWrittenOnce) {
  const auto run = [](bool checkpointed) {
    const auto x = ramp_leaf({4}), root = ramp_leaf({4});
    const auto total = root * 2;
    const auto fn = [total](at::Tensor h) {
      h = h + total.detach();
      {
        torch::NoGradGuard no_grad;
        total.add_(1);
        total.narrow(0, 0, 2).mul_(3);
      }
      return h.exp();
    };
    (checkpointed ? checkpoint(fn, x) : fn(x)).sum().backward();
    return std::vector<at::Tensor>{x.grad(), total.detach()};
  };
  expect_bitwise_equal(run(false), run(true));
}

// A view of a leaf has a history of its own kind, but the leaf under it is the program's.
TEST(CapturedWrites, AViewOfACapturedLeafIsWrittenOnce) {
  const auto run = [](bool checkpointed) {
    const auto x = ramp_leaf({4});
    const auto weight = torch::arange(8, torch::kDouble).reshape({2, 4}).set_requires_grad(true);
    const auto fn = [weight](at::Tensor h) {
      const auto row = weight[0];
      h = h + weight.detach()[0];
      {
        torch::NoGradGuard no_grad;
        row.mul_(0.5);
      }
      return h.exp();
    };
    (checkpointed ? checkpoint(fn, x) : fn(x)).sum().backward();
    return std::vector<at::Tensor>{x.grad(), weight.detach()};
  };
  expect_bitwise_equal(run(false), run(true));
}

// The captured tensor holds its new history, that holds the region, and the region the capture.
TEST(CapturedWrites, BackwardLeavesNoCycleBehind) {
  for (const bool has_history : {true, false}) {
    c10::weak_intrusive_ptr<c10::TensorImpl> captured(c10::intrusive_ptr<c10::TensorImpl>{});
    {
      const auto x = ramp_leaf({4});
      const auto total = has_history ? ramp_leaf({4}) * 2 : torch::zeros({4});
      captured = total.getIntrusivePtr();
      const auto y = checkpoint(
          [total](at::Tensor h) {
            total.add_(h.exp());
            return h.sin().exp();
          },
          x);
      (y.sum() + total.sum()).backward();
    }
    EXPECT_TRUE(captured.expired());
  }
}

TEST(CapturedWrites, WhatTheRegionMadeItselfMayHaveHistory) {
  const auto run = [](bool checkpointed) {
    const auto x = ramp_leaf({4});
    const auto fn = [](at::Tensor h) {
      auto total = torch::zeros({4});
      for (int i = 0; i < 3; ++i) {
        total.add_(h.exp());
      }
      auto rows = torch::zeros({2, 4});
      rows.select(0, 1).copy_(total.sin());
      rows.mul_(2);
      return std::make_pair(total, rows);
    };
    const auto [a, b] = checkpointed ? checkpoint(fn, x) : fn(x);
    (a.sum() + b.exp().sum()).backward();
    return x.grad();
  };
  EXPECT_TRUE(bitwise_equal(run(false), run(true)));
}

TEST(CapturedWrites, AnInnerRegionMayChangeWhatTheOuterOneMade) {
  const auto run = [](bool checkpointed) {
    const auto x = ramp_leaf({4});
    const auto outer = [checkpointed](at::Tensor h) {
      const auto made = h.exp() * 2;
      const auto inner = [made](at::Tensor t) {
        made.mul_(3);
        return t.sin();
      };
      return (checkpointed ? checkpoint(inner, h) : inner(h)) * made;
    };
    (checkpointed ? checkpoint(outer, x) : outer(x)).sum().backward();
    return x.grad();
  };
  EXPECT_TRUE(bitwise_equal(run(false), run(true)));
}

TEST(CapturedWrites, AResizedBufferIsRefusedAndNothingCrashes) {
  for (const bool reentrant : {false, true}) {
    const auto x = ramp_leaf({4});
    const auto log = torch::ones({1});
    const auto y = checkpoint(
        {.use_reentrant = reentrant, .name = "log"},
        [log](at::Tensor h) {
          torch::NoGradGuard no_grad;
          log.resize_({log.size(0) * 8});
          log.fill_(5);
          const at::AutoGradMode grad(true);
          return h.sin().exp();
        },
        x);
    EXPECT_EQ(log.size(0), 8);
    const auto message = message_of<CheckpointError>([&] { y.sum().backward(); });
    EXPECT_TRUE(contains(message, "region \"log\" resized a captured tensor"));
    EXPECT_TRUE(bitwise_equal(torch::full({8}, 5.0F), log));
  }
}

TEST(CapturedWrites, OwnTensorsMayBeResized) {
  const auto x = ramp_leaf({4});
  const auto fn = [](at::Tensor h) {
    auto sorted = torch::empty({0});
    {
      torch::NoGradGuard no_grad;
      at::cat_out(sorted, {h, h});
      sorted.resize_({2});
    }
    return std::make_pair((h * sorted.sum().item<double>()).exp(), sorted);
  };
  const auto [y, kept] = checkpoint(fn, x);
  y.sum().backward();
  const auto plain = ramp_leaf({4});
  fn(plain).first.sum().backward();
  EXPECT_TRUE(bitwise_equal(plain.grad(), x.grad()));
}

}  // namespace
}  // namespace reprise::testing
