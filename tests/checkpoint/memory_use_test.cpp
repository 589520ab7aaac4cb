// How many bytes a region holds at each moment of a training step. Tensors here are large beside
// what malloc rounds up, so counts of tensors are compared exactly.
#include "checkpoint/counted_tensors.h"
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

namespace reprise::testing {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

int64_t live() {
  return live_bytes(c10::kCPU);
}

/// Live tensors that `forward` adds while its result is held.
int64_t held_by(const std::function<at::Tensor()>& forward) {
  const auto before = live();
  const auto result = forward();
  return in_tensors(live() - before);
}

TEST(BytesAfterForward, AFullCheckpointHoldsOnlyInputsAndOutput) {
  const auto x = counted_input();
  EXPECT_EQ(held_by([&] { return deep(8)(x); }), 8);
  EXPECT_EQ(held_by([&] { return checkpoint(deep(8), x); }), 1);
  EXPECT_EQ(held_by([&] { return checkpoint(deep(4), checkpoint(deep(4), x)); }), 2);
}

TEST(BytesAfterForward, ForwardItselfNeedsNoMoreThanWithoutGradients) {
  const auto x = counted_input();
  const auto peak = [&](bool has_gradients) {
    const torch::AutoGradMode mode(has_gradients);
    const PeakTracker tracker(c10::kCPU);
    const auto y = checkpoint(deep(8), x);
    return in_tensors(tracker.extra());
  };
  EXPECT_EQ(peak(true), peak(false));
}

TEST(BytesAfterForward, NestingFreesInnerInputs) {
  const auto x = counted_input();
  const Fn four_regions = [](at::Tensor h) {
    for (int i = 0; i < 4; ++i) {
      h = checkpoint(deep(2), h);
    }
    return h;
  };
  EXPECT_EQ(held_by([&] { return four_regions(x); }), 4);
  EXPECT_EQ(held_by([&] { return checkpoint(four_regions, x); }), 1);
}

TEST(BytesAfterForward, TemporariesWrittenInPlaceAreNotHeld) {
  const auto x = counted_input();
  const Fn fn = [](at::Tensor h) {
    auto mask = torch::zeros({kSide, kSide});
    mask.add_(1).mul_(2);
    h = h * mask;
    return h.sin_().exp();
  };
  EXPECT_EQ(held_by([&] { return checkpoint(fn, x); }), 1);
}

TEST(BytesAfterForward, APolicyHoldsExactlyWhatItKeeps) {
  const auto x = counted_input();
  const auto w = torch::eye(kSide);
  const Fn fn = [w](at::Tensor h) {
    for (int i = 0; i < 4; ++i) {
      h = torch::mm(torch::tanh(h), w).sigmoid();
    }
    return h;
  };
  const auto held = [&](std::shared_ptr<const Policy> policy) {
    return held_by([&] { return checkpoint({.policy = std::move(policy)}, fn, x); });
  };
  EXPECT_EQ(held(policy::full()), 1);
  EXPECT_EQ(held(policy::save_matmuls()), 1 + 4);
  EXPECT_EQ(held(policy::save_matmuls(3)), 1 + 2);
  EXPECT_EQ(held(policy::save_ops({"aten::sigmoid"})), 4);  // the last is the output
}

TEST(BytesAfterForward, AKeptResultThatIsOverwrittenIsHeldOnce) {
  const auto x = counted_input();
  const auto w = torch::eye(kSide);
  const Fn fn = [w](at::Tensor h) { return torch::mm(h, w).add_(1).mul_(2).exp(); };
  EXPECT_EQ(held_by([&] { return checkpoint({.policy = policy::save_matmuls()}, fn, x); }), 2);
}

/// Live tensors over `before` when each layer's backward ends, last layer first.
std::vector<int64_t> live_during_backward(bool retain_graph) {
  const auto x = counted_input();
  auto counts = std::make_shared<std::vector<int64_t>>();
  const auto before = live();
  const Fn fn = [=](at::Tensor h) {
    for (int i = 0; i < 6; ++i) {
      h = torch::tanh(h);
      h.register_hook(
          [counts, before](const at::Tensor&) { counts->push_back(in_tensors(live() - before)); });
    }
    return h;
  };
  const auto y = checkpoint(fn, x);
  const auto upstream = torch::ones({1}).expand({kSide, kSide});
  torch::autograd::grad({y}, {x}, {upstream}, retain_graph);
  return *counts;
}

TEST(BytesInBackward, RecomputedTensorsAreFreedOneByOne) {
  // The output's hook runs before the recompute. From then on there are the output, one gradient,
  // and those of six recomputed tensors that are still to be used.
  const std::vector<int64_t> expected{1, 7, 6, 5, 4, 3};
  EXPECT_EQ(live_during_backward(/*retain_graph=*/false), expected);
  EXPECT_EQ(live_during_backward(/*retain_graph=*/true), expected);
}

TEST(BytesInBackward, NestedRegionsHoldTheInnerInputsAndOneInnerRegion) {
  const auto x = counted_input();
  const Fn block = deep(4);
  const Fn blocks = [block](at::Tensor h) {
    for (int i = 0; i < 4; ++i) {
      h = checkpoint(block, h);
    }
    return h;
  };
  const auto peak = [&](const Fn& fn) {
    const PeakTracker tracker(c10::kCPU);
    const auto y = checkpoint(fn, x);
    y.backward(torch::ones({1}).expand({kSide, kSide}));
    x.mutable_grad() = at::Tensor();
    return in_tensors(tracker.extra());
  };
  EXPECT_GE(peak(deep(16)), 16);
  EXPECT_LE(peak(blocks), 11);
}

TEST(BytesAfterBackward, NothingOfARegionSurvivesThoughItsOutputDoes) {
  const auto x = counted_input();
  const auto before = live();
  std::vector<WeakStorage> inside;
  std::optional<WeakStorage> captured_storage;
  at::Tensor y;
  {
    const auto captured = torch::ones({kSide, kSide});
    captured_storage.emplace(captured.storage().getWeakStorageImpl());
    const Fn fn = [captured, &inside](at::Tensor h) {
      h = torch::mm(h, captured).tanh();
      inside.emplace_back(h.storage().getWeakStorageImpl());
      return h.exp();
    };
    y = checkpoint({.policy = policy::save_matmuls()}, fn, x);
  }
  ASSERT_EQ(inside.size(), 1U);
  EXPECT_TRUE(inside[0].expired());
  EXPECT_FALSE(captured_storage->expired());
  y.sum().backward();
  EXPECT_EQ(inside.size(), 2U);
  EXPECT_TRUE(inside[1].expired());
  EXPECT_TRUE(captured_storage->expired());
  EXPECT_EQ(y.storage().use_count(), 1U);
  EXPECT_EQ(in_tensors(live() - before), 2);  // the output and the gradient
}

TEST(BytesAfterBackward, ADroppedGraphFreesEverything) {
  const auto x = counted_input();
  const auto before = live();
  for (const auto& policy : {std::shared_ptr<const Policy>(), policy::save_ops({"aten::tanh"})}) {
    auto y = checkpoint(
        {.policy = policy}, [](const at::Tensor& h) { return checkpoint(deep(3), h).tanh(); }, x);
    EXPECT_GT(live(), before);
    y.reset();
    EXPECT_EQ(live(), before);
  }
}

TEST(BytesAfterBackward, AnErrorInBackwardLeavesNothing) {
  const auto x = counted_input();
  const auto before = live();
  {
    auto runs = std::make_shared<int>(0);
    const Fn fn = [runs](at::Tensor h) {
      h = deep(3)(h);
      if (++*runs == 2) {
        throw std::runtime_error("second run");
      }
      return h.exp();
    };
    auto y = checkpoint({.early_stop = false}, fn, x);
    const auto after_forward = live();
    EXPECT_THROW(y.sum().backward(), std::exception);
    EXPECT_EQ(in_tensors(live() - after_forward), 0);
  }
  {
    auto y = checkpoint(deep(3), x);
    y.register_hook([](const at::Tensor& grad) -> at::Tensor {
      TORCH_CHECK(!grad.defined(), "a hook fails");
      return grad;
    });
    EXPECT_THROW(y.sum().backward(), c10::Error);
  }
  EXPECT_EQ(live(), before);
}

TEST(BytesAfterBackward, AnErrorAfterTheRecomputeFreesWhatWasRecomputed) {
  const auto x = counted_input();
  const Fn fn = [](at::Tensor h) {
    h = deep(4)(h);
    h.register_hook([](const at::Tensor& grad) -> at::Tensor {
      TORCH_CHECK(!grad.defined(), "a hook fails");
      return grad;
    });
    return deep(4)(h);
  };
  const auto y = checkpoint(fn, x);
  const auto after_forward = live();
  EXPECT_THROW(y.sum().backward({}, /*retain_graph=*/true), c10::Error);
  EXPECT_EQ(in_tensors(live() - after_forward), 0);
}

TEST(BytesAfterBackward, GradOverAPartOfTheGraphFreesTheRestAtItsEnd) {
  const auto x = counted_input();
  const auto z = counted_input();
  const auto outputs = checkpoint(
      [](const at::Tensor& a, const at::Tensor& b) { return std::pair(deep(3)(a), deep(5)(b)); },
      x,
      z);
  const auto after_forward = live();
  {
    const auto gradient =
        torch::autograd::grad({outputs.first.sum()}, {x}, {}, /*retain_graph=*/true)[0];
    EXPECT_EQ(in_tensors(live() - after_forward), 1);
  }
  EXPECT_EQ(in_tensors(live() - after_forward), 0);
  // The other part is still there to be used.
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({outputs.second.sum()}, {z})[0],
                            torch::autograd::grad({deep(5)(z).sum()}, {z})[0]));
}

TEST(BytesAfterBackward, AGraphExecGroupFreesAtItsEnd) {
  const auto x = counted_input();
  const auto z = counted_input();
  const auto outputs = checkpoint(
      [](const at::Tensor& a, const at::Tensor& b) { return std::pair(deep(3)(a), deep(5)(b)); },
      x,
      z);
  const auto after_forward = live();
  {
    const GraphExecGroup group;
    torch::autograd::grad({outputs.first.sum()}, {x}, {}, /*retain_graph=*/true);
    EXPECT_GE(in_tensors(live() - after_forward), 4);
  }
  EXPECT_EQ(in_tensors(live() - after_forward), 0);
}

}  // namespace
}  // namespace reprise::testing
