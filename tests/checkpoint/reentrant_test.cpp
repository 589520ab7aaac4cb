// The reentrant variant: what it can do equals plain autograd; what it cannot is refused with a
// message, never a silent wrong gradient.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"

#include <reprise/autocast.h>
#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace reprise::testing {
namespace {

const CheckpointOptions kReentrant{.use_reentrant = true, .name = "block"};

/// The text of the CheckpointError that `fn` throws, which must name the region.
template <class Fn>
std::string block_refusal(Fn&& fn) {
  auto message = message_of<CheckpointError>(std::forward<Fn>(fn));
  EXPECT_TRUE(contains(message, "region \"block\""));
  return message;
}

TEST(Reentrant, RunsTwicePerBackwardAndAgainWhenTheGraphIsRetained) {
  const auto x = double_leaf({3}, 1), plain = double_leaf({3}, 1);
  int runs = 0;
  const auto fn = [&runs](at::Tensor h) {
    ++runs;
    return h.sin().exp();
  };
  const auto y = checkpoint(kReentrant, fn, x).sum();
  EXPECT_EQ(runs, 1);
  y.backward({}, /*retain_graph=*/true);
  EXPECT_EQ(runs, 2);
  y.backward();
  EXPECT_EQ(runs, 3);
  const auto z = fn(plain).sum();
  z.backward({}, true);
  z.backward();
  EXPECT_TRUE(bitwise_equal(plain.grad(), x.grad()));
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { y.backward(); }), "a second time"));
}

TEST(Reentrant, ForwardLeavesNoGraphInsideTheRegion) {
  const auto x = double_leaf({3}, 1);
  bool had_graph = true;
  const auto y = checkpoint(
      kReentrant,
      [&had_graph](at::Tensor h) {
        const auto z = h.exp();
        had_graph = z.requires_grad();
        return z;
      },
      x);
  EXPECT_FALSE(had_graph);
  EXPECT_TRUE(y.requires_grad());
  y.sum().backward();
  EXPECT_TRUE(had_graph);  // the recompute's
}

TEST(Reentrant, RefusesAutogradGrad) {
  const auto x = double_leaf({3}, 1);
  const auto y = checkpoint(
                     kReentrant, [](at::Tensor h) { return h.exp(); }, x)
                     .sum();
  const auto message = block_refusal([&] { torch::autograd::grad({y}, {x}); });
  EXPECT_TRUE(contains(message, "torch::autograd::grad()"));
  EXPECT_TRUE(contains(message, "use_reentrant = false"));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Reentrant, RefusesBackwardForGivenInputs) {
  const auto x = double_leaf({3}, 1);
  const auto y = checkpoint(
                     kReentrant, [](at::Tensor h) { return h.exp(); }, x)
                     .sum();
  const std::vector<at::Tensor> inputs{x};
  const auto message = block_refusal([&] { y.backward({}, false, false, inputs); });
  EXPECT_TRUE(contains(message, "backward(inputs)"));
}

TEST(Reentrant, RefusesDoubleBackward) {
  // The inner backward makes no graph, so second derivatives through the region would be silently
  // missing.
  const auto x = double_leaf({3}, 1);
  const auto y = checkpoint(
                     kReentrant, [](at::Tensor h) { return h.exp(); }, x)
                     .sum();
  const auto message = block_refusal([&] { y.backward({}, true, /*create_graph=*/true); });
  EXPECT_TRUE(contains(message, "create_graph"));
}

TEST(Reentrant, RefusesARegionWithoutAnInputThatRequiresGrad) {
  torch::nn::Linear linear(3, 3);
  auto fn = [linear](at::Tensor h) mutable { return linear(h); };
  const auto message = block_refusal([&] { checkpoint(kReentrant, fn, torch::randn({2, 3})); });
  EXPECT_TRUE(contains(message, "none of the input tensors requires grad"));
}

TEST(Reentrant, RefusesACapturedTensorWithHistory) {
  const auto x = double_leaf({3}, 1), root = double_leaf({3}, 2);
  const auto captured = root.exp();
  const auto y = checkpoint(
                     kReentrant, [captured](at::Tensor h) { return h * captured; }, x)
                     .sum();
  const auto message = block_refusal([&] { y.backward(); });
  EXPECT_TRUE(contains(message, "captured tensor"));
  EXPECT_TRUE(contains(message, "ExpBackward"));
  EXPECT_FALSE(root.grad().defined());
}

TEST(Reentrant, AllowsCapturedLeavesAndDetachedTensors) {
  const auto x = double_leaf({3}, 1), weight = double_leaf({3}, 2), root = double_leaf({3}, 3);
  const auto captured = root.exp().detach();
  const auto fn = [weight, captured](at::Tensor h) { return (h * weight * captured).sigmoid(); };
  checkpoint(kReentrant, fn, x).sum().backward();
  const auto expected = torch::autograd::grad({fn(x).sum()}, {x, weight});
  expect_bitwise_equal(expected, {x.grad(), weight.grad()});
}

TEST(Reentrant, RefusesPoliciesAndValues) {
  const auto x = double_leaf({3, 3}, 1);
  const auto fn = [](at::Tensor h) { return torch::mm(h, h); };
  auto options = kReentrant;
  options.policy = policy::save_matmuls();
  EXPECT_TRUE(contains(block_refusal([&] { checkpoint(options, fn, x); }), "policy"));
  options = kReentrant;
  options.determinism_check = DeterminismCheck::Values;
  EXPECT_TRUE(
      contains(block_refusal([&] { checkpoint(options, fn, x); }), "DeterminismCheck::Values"));
}

struct Opaque {
  std::shared_ptr<at::Tensor> hidden;
  ~Opaque() {}
};

TEST(Reentrant, RefusesResultsThatGradientsCannotComeBackTo) {
  const auto x = double_leaf({3}, 1);
  const auto nothing = message_of<CheckpointError>([&] {
    checkpoint(
        kReentrant, [](at::Tensor) {}, x);
  });
  EXPECT_TRUE(contains(nothing, "must return tensors"));
  const auto opaque = message_of<CheckpointError>([&] {
    checkpoint(
        kReentrant, [](at::Tensor h) { return Opaque{std::make_shared<at::Tensor>(h)}; }, x);
  });
  EXPECT_TRUE(contains(opaque, "Opaque"));
}

TEST(Reentrant, SaysWhenNoOutputRequiresGradInRecompute) {
  const auto x = double_leaf({3}, 1);
  const auto y = checkpoint(
      kReentrant, [](at::Tensor h) { return h.detach() * 2; }, x);
  EXPECT_TRUE(contains(block_refusal([&] { y.sum().backward(); }), "not necessary"));
}

TEST(Reentrant, SaysWhenRecomputeReturnsOtherTensors) {
  const auto x = double_leaf({4}, 1);
  int runs = 0;
  const auto y = checkpoint(
      kReentrant, [&runs](at::Tensor h) { return (runs++ == 0 ? h : h.narrow(0, 0, 2)).exp(); }, x);
  EXPECT_TRUE(contains(block_refusal([&] { y.sum().backward(); }), "returned different tensors"));
}

TEST(Reentrant, InputsChangedInPlaceAreRefused) {
  const auto x = double_leaf({3}, 1);
  const auto h = x * 2;
  const auto y = checkpoint(
                     kReentrant, [](at::Tensor t) { return t.exp(); }, h)
                     .sum();
  h.add_(1);
  EXPECT_TRUE(contains(block_refusal([&] { y.backward(); }), "input tensor #0"));
  EXPECT_TRUE(contains(block_refusal([&] {
                         checkpoint(
                             kReentrant, [](at::Tensor t) { return t.mul_(2); }, x * 2);
                       }),
                       "changed its input tensor #0"));
}

TEST(Reentrant, OutputsThatAreInputsOrViewsOfThem) {
  const auto run = [](bool checkpointed) {
    const auto x = double_leaf({4}, 1), z = double_leaf({4}, 2);
    const auto fn = [](at::Tensor h, at::Tensor g) {
      return std::make_tuple(h, g.narrow(0, 1, 2), (h * g).exp(), h.argmax());
    };
    const auto [a, b, c, index] = checkpointed ? checkpoint(kReentrant, fn, x, z) : fn(x, z);
    EXPECT_EQ(index.scalar_type(), torch::kLong);
    (a.sum() * b.sum() + c.sum()).backward();
    return std::vector<at::Tensor>{a, b, c, index, x.grad(), z.grad()};
  };
  expect_bitwise_equal(run(false), run(true));
}

TEST(Reentrant, UnusedOutputsAndUnusedAndDetachedInputs) {
  const auto run = [](bool checkpointed) {
    const auto x = double_leaf({4}, 1), unused = double_leaf({4}, 2), scale = double_leaf({4}, 3);
    const auto fn = [](at::Tensor h, at::Tensor, at::Tensor s, std::optional<at::Tensor> none) {
      EXPECT_FALSE(none.has_value());
      return std::vector<at::Tensor>{h.exp(), (h * s).sin(), at::Tensor()};
    };
    const std::optional<at::Tensor> none;
    const auto outputs = checkpointed ? checkpoint(kReentrant, fn, x, unused, scale.detach(), none)
                                      : fn(x, unused, scale.detach(), none);
    EXPECT_FALSE(outputs[2].defined());
    outputs[1].sum().backward();
    return std::vector<at::Tensor>{outputs[0], outputs[1], x.grad(), unused.grad(), scale.grad()};
  };
  expect_bitwise_equal(run(false), run(true));
}

TEST(Reentrant, NestsInItselfAndInNonReentrantRegionsAndBackAgain) {
  const auto fn = [](at::Tensor h) { return h.sin().exp(); };
  const auto wrap = [](const CheckpointOptions& options, auto inner) {
    return [options, inner](at::Tensor h) { return checkpoint(options, inner, h.tanh()); };
  };
  const auto plain = double_leaf({3}, 1);
  fn(plain.tanh().tanh()).sum().backward();
  for (const bool outer : {false, true}) {
    for (const bool middle : {false, true}) {
      for (const bool inner : {false, true}) {
        const auto x = double_leaf({3}, 1);
        const auto nested = wrap({.use_reentrant = middle}, wrap({.use_reentrant = inner}, fn));
        checkpoint({.use_reentrant = outer}, nested, x).sum().backward();
        EXPECT_TRUE(bitwise_equal(plain.grad(), x.grad())) << outer << middle << inner;
      }
    }
  }
}

TEST(Reentrant, RestoresRandomNumbersAndTheCallersGenerator) {
  const auto run = [](bool checkpointed) {
    torch::manual_seed(3);
    const auto x = double_leaf({32}, 1);
    const auto fn = [](at::Tensor h) { return torch::dropout(h.exp(), 0.5, true); };
    const auto y = (checkpointed ? checkpoint(kReentrant, fn, x) : fn(x)).sum();
    const auto between = torch::rand({2});
    y.backward();
    return std::vector<at::Tensor>{y, x.grad(), between, torch::rand({2})};
  };
  expect_bitwise_equal(run(false), run(true));
}

// Autocast caches the casts of leaves. Casts made in the region's no-grad forward must not be found
// there by code that needs gradients, nor may the recompute take casts from there that belong to
// another graph.
TEST(Reentrant, AutocastCacheDoesNotSwallowGradients) {
  const auto run = [](bool checkpointed, bool backward_inside, bool cast_before) {
    const auto x = float_leaf({4, 4}, 1), weight = float_leaf({4, 4}, 2);
    const auto fn = [weight](at::Tensor h) { return torch::mm(h, weight).sigmoid(); };
    std::optional<AutocastScope> autocast(c10::kCPU);
    auto h = cast_before ? torch::mm(x, weight) : x * 1;
    h = checkpointed ? checkpoint(kReentrant, fn, h) : fn(h);
    const auto loss = torch::mm(h, weight).to(torch::kFloat).sum();
    if (!backward_inside) {
      autocast.reset();
    }
    loss.backward();
    return std::vector<at::Tensor>{loss, x.grad(), weight.grad()};
  };
  for (const bool backward_inside : {false, true}) {
    for (const bool cast_before : {false, true}) {
      const auto plain = run(false, backward_inside, cast_before);
      const auto ours = run(true, backward_inside, cast_before);
      EXPECT_TRUE(bitwise_equal(plain[0], ours[0]));
      EXPECT_TRUE(bitwise_equal(plain[1], ours[1]));
      ASSERT_TRUE(ours[2].defined()) << backward_inside << cast_before;
      // Summed in another order, in bfloat16 or not.
      EXPECT_TRUE(torch::allclose(plain[2], ours[2], 2e-2, 1e-2))
          << backward_inside << cast_before << "\n"
          << plain[2] << ours[2];
    }
  }
}

}  // namespace
}  // namespace reprise::testing
