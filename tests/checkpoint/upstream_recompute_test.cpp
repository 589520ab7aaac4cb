// The claims of PyTorch's TestSelectiveActivationCheckpoint (test/test_autograd.py) about
// recomputes that call other operators than forward, and about policies that go by module.
// docs/upstream-tests.md says which test is which.
#include "support/bitwise.h"
#include "support/kernel_calls.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace reprise::testing {
namespace {

/// What a backward says whose recompute is told that it is one. Early stop is off.
std::string message_of_drifting(const std::shared_ptr<const Policy>& policy,
                                const std::function<at::Tensor(at::Tensor, bool)>& fn) {
  const Fn drifting = [fn](at::Tensor x) { return fn(std::move(x), is_recomputing()); };
  const auto y = checkpoint({.early_stop = false, .policy = policy, .name = "drifting"},
                            drifting,
                            torch::randn({3}, at::requires_grad()));
  return message_of<CheckpointError>([&] { y.sum().backward(); });
}

TEST(UpstreamRecompute, ANewOperatorUnderAPolicyIsAnError) {
  const auto recompute_all =
      policy::from([](const OpContext&) { return Decision::Recompute; }, "nothing");
  const auto message = message_of_drifting(recompute_all, [](at::Tensor x, bool is_recompute) {
    x = x.sin();
    return is_recompute ? x.exp() : x;
  });
  EXPECT_TRUE(contains(message, "\"drifting\" saved 1 tensor for backward in forward but 2"));
}

TEST(UpstreamRecompute, AnExtraCallOfAKeptOperatorIsAnError) {
  const auto message =
      message_of_drifting(policy::save_ops({"aten::sin"}), [](at::Tensor x, bool is_recompute) {
        x = x.sin();
        return (is_recompute ? x.sin() : x).cos();
      });
  EXPECT_TRUE(contains(message, "\"drifting\" saved 2 tensors for backward in forward but 3"));
}

/// Two layers of three sines. Each call has a name: its layer's path and its number in the layer.
struct NamedSines {
  at::Tensor operator()(at::Tensor x) const {
    for (const char* path : {"layers.0", "layers.1"}) {
      for (int i = 0; i < 3; ++i) {
        *running = path + ("_sin_" + std::to_string(i));
        x = x.sin();
      }
    }
    return x;
  }
  std::shared_ptr<std::string> running = std::make_shared<std::string>();
};

TEST(UpstreamRecompute, APolicyMayGoByTheModuleThatRuns) {
  const NamedSines model;
  std::set<std::string> asked;
  const auto by_name = policy::from([&](const OpContext&) {
    asked.insert(*model.running);
    const std::set<std::string> kept{"layers.0_sin_1", "layers.1_sin_0", "layers.1_sin_2"};
    return kept.contains(*model.running) ? Decision::Keep : Decision::Recompute;
  });
  const auto x = torch::randn({4}, at::requires_grad());
  KernelCalls sines("aten", "sin");
  const auto y = checkpoint({.policy = by_name}, model, x);
  EXPECT_EQ(sines.get(), 6U);
  EXPECT_EQ(asked.size(), 6U);
  const auto ours = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_EQ(sines.get(), 9U);  // the three that are not kept ran twice
  EXPECT_TRUE(bitwise_equal(ours, torch::autograd::grad({model(x).sum()}, {x})[0]));
}

}  // namespace
}  // namespace reprise::testing
