// Hooks on saved tensors that a C++ program can install itself: on a node, for what it has saved.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"

#include <reprise/detail/host_language.h>
#include <reprise/reprise.h>

#include <ATen/SavedTensorHooks.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/torch.h>

#include <memory>
#include <utility>

namespace reprise::testing {
namespace {

struct Uses {
  int packed = 0;
  int unpacked = 0;
};

/// Keeps a tensor in double precision, as a program that moves it elsewhere would.
class Elsewhere final : public torch::autograd::SavedVariableHooks {
 public:
  explicit Elsewhere(Uses& uses) : uses_(uses) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    ++uses_.packed;
    tensor_ = tensor.detach().to(at::kDouble);
  }
  at::Tensor call_unpack_hook() override {
    ++uses_.unpacked;
    return tensor_.to(at::kFloat);
  }

 private:
  Uses& uses_;
  at::Tensor tensor_;
};

/// Adds hooks to the result that exp has saved.
void hook_exp(const at::Tensor& y, Uses& uses) {
  auto& node = dynamic_cast<torch::autograd::generated::ExpBackward0&>(*y.grad_fn());
  node.result_.register_hooks(std::make_unique<Elsewhere>(uses));
}

at::Tensor expected() {
  const auto x = ramp_leaf({2, 3});
  x.exp().sin().exp().sum().backward();
  return x.grad();
}

TEST(SavedHooks, OfTheProgramWorkBesideRegions) {
  for (const bool reentrant : {false, true}) {
    Uses uses;
    const auto x = ramp_leaf({2, 3});
    const auto before = x.exp();
    hook_exp(before, uses);
    const auto inside = checkpoint(
        {.use_reentrant = reentrant}, [](at::Tensor h) { return h.sin(); }, before);
    const auto after = inside.exp();
    hook_exp(after, uses);
    after.sum().backward();
    EXPECT_EQ(uses.packed, 2);
    EXPECT_EQ(uses.unpacked, 2);
    EXPECT_TRUE(bitwise_equal(x.grad(), expected()));
  }
}

TEST(SavedHooks, AnOutsideScopeIsNoPartOfTheRegionAroundIt) {
  const auto x = ramp_leaf({2, 3});
  auto counter = torch::zeros({1});
  const auto body = [counter](at::Tensor h) {
    EXPECT_TRUE(detail::BackwardScope::is_needed());
    {
      const detail::OutsideScope outside;
      EXPECT_FALSE(detail::BackwardScope::is_needed());
      counter.add_(1);
      auto leaf = ramp_leaf({2, 3});
      const auto y = leaf.exp();
      // What it saves is kept as it is, so that a node takes hooks.
      Uses uses;
      hook_exp(y, uses);
      y.sum().backward();
      EXPECT_EQ(uses.unpacked, 1);
    }
    EXPECT_TRUE(detail::BackwardScope::is_needed());
    return h.exp().sin().exp();
  };
  checkpoint(body, x).sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), expected()));
  EXPECT_EQ(counter.item<float>(), 2);  // a region would have undone the recompute's
}

TEST(SavedHooks, OnWhatARegionHasSavedAreRefusedByLibTorch) {
  Uses uses;
  const auto x = ramp_leaf({2, 3});
  const auto y = checkpoint([](at::Tensor h) { return h.exp().sin().exp(); }, x);
  EXPECT_TRUE(contains(message_of<c10::Error>([&] { hook_exp(y, uses); }), "already been set"));
  y.sum().backward();
  EXPECT_EQ(uses.packed, 0);
  EXPECT_TRUE(bitwise_equal(x.grad(), expected()));

  EXPECT_TRUE(contains(message_of<c10::Error>([&] {
                         checkpoint(
                             {.name = "hooking"},
                             [&uses](at::Tensor h) {
                               h = h.exp();
                               hook_exp(h, uses);
                               return h.sin();
                             },
                             x);
                       }),
                       "while running region \"hooking\""));
}

// The forward of a reentrant region makes no graph, its recompute an ordinary one.
TEST(SavedHooks, InTheRecomputeOfAReentrantRegionTheyWork) {
  Uses uses;
  const auto x = ramp_leaf({2, 3});
  const auto fn = [&uses](at::Tensor h) {
    h = h.exp();
    if (h.grad_fn()) {
      hook_exp(h, uses);
    }
    return h.sin().exp();
  };
  checkpoint({.use_reentrant = true}, fn, x).sum().backward();
  EXPECT_EQ(uses.unpacked, 1);
  EXPECT_TRUE(bitwise_equal(x.grad(), expected()));
}

TEST(SavedHooks, ThatTheThreadHasDisabledAreMissed) {
  const auto x = ramp_leaf({2, 3});
  const auto run = [x](bool reentrant) {
    return checkpoint(
        {.use_reentrant = reentrant, .name = "part"}, [](at::Tensor h) { return h.exp(); }, x);
  };
  at::SavedTensorDefaultHooks::disable("no hooks in this part");
  const auto message = message_of<CheckpointError>([&] { run(/*reentrant=*/false); });
  const auto y = run(/*reentrant=*/true);  // needs none
  at::SavedTensorDefaultHooks::enable();
  EXPECT_TRUE(contains(message, "region \"part\" needs hooks on saved tensors"));
  EXPECT_TRUE(contains(message, "no hooks in this part"));
  y.sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), x.detach().exp()));
}

}  // namespace
}  // namespace reprise::testing
