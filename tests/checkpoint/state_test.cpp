// Recompute finds the state that forward found, and the caller finds its own afterwards: random
// numbers, autocast, grad mode. Process-wide settings cannot be restored, so a change is an error
// that names the setting.
#include "checkpoint/small_graphs.h"
#include "support/bitwise.h"
#include "support/devices.h"

#include <reprise/autocast.h>
#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace reprise::testing {
namespace {

at::Tensor noisy(at::Tensor h) {
  h = torch::dropout(h.exp(), 0.5, true).sin();
  // Normal numbers come in pairs: an odd number leaves one in the generator.
  return (h * torch::randn({h.size(0)}, h.options().requires_grad(false)) *
          torch::randn({1}, h.options().requires_grad(false)))
      .exp();
}

TEST(RandomState, IsRestoredForRecomputeAndTheCallersIsIntact) {
  for (const auto device : devices()) {
    const auto run = [device](bool checkpointed) {
      torch::manual_seed(8);
      const auto x = float_leaf({33}, /*seed=*/4, device);
      const auto y = (checkpointed ? checkpoint(noisy, x) : noisy(x)).sum();
      const auto between = torch::randn({3}, torch::TensorOptions(device));
      y.backward({}, /*retain_graph=*/true);
      y.backward();
      return std::vector<at::Tensor>{
          y, x.grad(), between, torch::randn({3}, torch::TensorOptions(device)), torch::rand({3})};
    };
    expect_bitwise_equal(run(false), run(true));
  }
}

TEST(RandomState, OfFurtherGeneratorsIsRestoredListedOrNot) {
  const auto run = [](bool checkpointed, bool listed) {
    auto generator = at::detail::createCPUGenerator(3);
    const auto x = float_leaf({16});
    const auto fn = [generator](at::Tensor h) {
      return h.exp() * torch::rand({16}, generator) + h.sin();
    };
    CheckpointOptions options;
    if (listed) {
      options.generators = {generator};
    }
    (checkpointed ? checkpoint(options, fn, x) : fn(x)).sum().backward();
    return std::vector<at::Tensor>{x.grad(), torch::rand({2}, generator)};
  };
  const auto plain = run(false, false);
  expect_bitwise_equal(plain, run(true, true));
  expect_bitwise_equal(plain, run(true, false));
}

TEST(RandomState, IsLeftAloneOnRequest) {
  torch::manual_seed(8);
  const auto x = float_leaf({64});
  const auto fn = [](at::Tensor h) { return torch::dropout(h.exp(), 0.5, true); };
  const auto y = checkpoint({.preserve_rng_state = false, .early_stop = false}, fn, x).sum();
  auto generator = at::detail::getDefaultCPUGenerator();
  const auto before = generator.get_state();
  y.backward();
  EXPECT_FALSE(torch::equal(before, generator.get_state()));  // recompute drew on

  torch::manual_seed(8);
  const auto plain = float_leaf({64});
  fn(plain).sum().backward();
  EXPECT_FALSE(bitwise_equal(plain.grad(), x.grad()));
}

TEST(RandomState, MayBePutBackByTheRegionItself) {
  const auto run = [](bool checkpointed) {
    torch::manual_seed(8);
    const auto x = float_leaf({64});
    const auto fn = [](at::Tensor h) {
      auto generator = at::detail::getDefaultCPUGenerator();
      const auto state = generator.get_state();
      h = torch::dropout(h.exp(), 0.5, true);
      generator.set_state(state);
      return h.sin();
    };
    const auto y = (checkpointed ? checkpoint(fn, x) : fn(x)).sum();
    torch::rand({5});
    y.backward();
    return std::vector<at::Tensor>{x.grad(), torch::rand({3})};
  };
  expect_bitwise_equal(run(false), run(true));
}

TEST(RandomState, OfGeneratorsThatTheRegionDoesNotUseIsNeverTurnedBack) {
  // So that another thread may draw from them while backward runs.
  auto used = at::detail::createCPUGenerator(3);
  const auto x = float_leaf({16});
  bool is_recompute = false;
  at::Tensor drawn;
  const auto fn = [used, &is_recompute, &drawn](at::Tensor h) {
    h = h.exp() * torch::rand({16}, used);
    if (is_recompute) {
      std::thread([&drawn] { drawn = torch::rand({4}); }).join();
    }
    return h.sin() + 1;
  };
  const auto y = checkpoint({.early_stop = false, .generators = {used}}, fn, x).sum();
  is_recompute = true;
  torch::manual_seed(8);
  y.backward();
  const auto after = torch::rand({4});
  torch::manual_seed(8);
  EXPECT_TRUE(bitwise_equal(torch::rand({4}), drawn));
  EXPECT_TRUE(bitwise_equal(torch::rand({4}), after));
}

TEST(RandomState, SurvivesAReseedInsideTheRegionAndBetween) {
  const auto run = [](bool checkpointed) {
    torch::manual_seed(8);
    const auto x = float_leaf({64});
    const auto fn = [](at::Tensor h) {
      torch::manual_seed(99);
      return torch::dropout(h.exp(), 0.5, true).sin();
    };
    const auto y = (checkpointed ? checkpoint(fn, x) : fn(x)).sum();
    torch::manual_seed(3);
    y.backward();
    return std::vector<at::Tensor>{x.grad(), torch::rand({3})};
  };
  expect_bitwise_equal(run(false), run(true));
}

TEST(RandomState, OnCudaIsReadWithoutWaitingForTheDevice) {
  REPRISE_REQUIRE_CUDA();
  // A host that only launches is far ahead of a device that computes. The query says whether work
  // is still queued.
  const auto x = float_leaf({1 << 20}, /*seed=*/4, c10::kCUDA);
  const auto big = torch::randn({4096, 4096}, torch::kCUDA);
  torch::mm(big, big);
  const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
  const auto stream = guard.getStream(x.device());
  stream.synchronize();
  for (int i = 0; i < 50; ++i) {
    torch::mm(big, big);
  }
  const auto y = checkpoint([](at::Tensor h) { return torch::dropout(h, 0.5, true).exp(); }, x);
  EXPECT_FALSE(guard.queryStream(stream));
}

TEST(AutocastState, IsRestoredAndTheCallersIsIntact) {
  for (const bool forward_on : {false, true}) {
    for (const bool backward_on : {false, true}) {
      const auto weight = float_leaf({4, 4});
      std::vector<at::ScalarType> seen;
      const auto fn = [weight, &seen](at::Tensor h) {
        const auto y = torch::mm(h, weight);
        seen.push_back(y.scalar_type());
        return y.exp().to(torch::kFloat);
      };
      const auto x = float_leaf({4, 4});
      at::Tensor y;
      {
        const AutocastScope autocast(c10::kCPU, torch::kBFloat16, forward_on);
        y = checkpoint(fn, x).sum();
      }
      {
        const AutocastScope autocast(c10::kCPU, torch::kHalf, backward_on);
        y.backward();
        EXPECT_EQ(at::autocast::is_autocast_enabled(c10::kCPU), backward_on);
        EXPECT_EQ(at::autocast::get_autocast_dtype(c10::kCPU), torch::kHalf);
        const auto product = torch::mm(x.detach(), x.detach());
        EXPECT_EQ(product.scalar_type(), backward_on ? torch::kHalf : torch::kFloat);
      }
      const auto expected = forward_on ? torch::kBFloat16 : torch::kFloat;
      EXPECT_EQ(seen, (std::vector<at::ScalarType>{expected, expected}));
      EXPECT_FALSE(at::autocast::is_autocast_enabled(c10::kCPU));
    }
  }
}

TEST(AutocastState, CachedCastsFromOutsideDoNotChangeGradients) {
  const auto run = [](bool checkpointed, bool backward_inside) {
    const auto x = float_leaf({4, 4}), weight = float_leaf({4, 4});
    const auto fn = [weight](at::Tensor h) {
      return torch::mm(torch::mm(h, weight).sigmoid(), weight);
    };
    std::optional<AutocastScope> autocast(c10::kCPU);
    auto h = checkpointed ? checkpoint(fn, x) : fn(x);
    h = torch::mm(h, weight);
    h = checkpointed ? checkpoint({.policy = policy::save_matmuls()}, fn, h) : fn(h);
    const auto loss = h.to(torch::kFloat).sum();
    if (!backward_inside) {
      autocast.reset();
    }
    loss.backward();
    return std::vector<at::Tensor>{loss, x.grad(), weight.grad()};
  };
  for (const bool inside : {false, true}) {
    expect_bitwise_equal(run(false, inside), run(true, inside));
  }
}

TEST(GradMode, IsOnInRecomputeAndTheCallersIsIntact) {
  const auto x = float_leaf({4});
  std::vector<bool> seen;
  const auto y = checkpoint(
      [&seen](at::Tensor h) {
        seen.push_back(at::GradMode::is_enabled());
        at::Tensor scale;
        {
          torch::NoGradGuard no_grad;
          scale = h.exp();  // saves nothing, in both runs
        }
        return (h * scale).sin();
      },
      x);
  torch::NoGradGuard no_grad;
  y.sum();
  torch::autograd::backward({y}, {torch::ones({4})});
  EXPECT_FALSE(at::GradMode::is_enabled());
  EXPECT_EQ(seen, (std::vector<bool>{true, true}));
}

TEST(InferenceTensors, CanBeInputs) {
  const auto weight = float_leaf({4});
  at::Tensor x;
  {
    const c10::InferenceMode inference;
    x = torch::ones({4}) * 2;
  }
  const auto fn = [weight](at::Tensor h) { return (h.clone() * weight).sin(); };
  checkpoint(fn, x).sum().backward();
  const auto expected = torch::autograd::grad({fn(x).sum()}, {weight})[0];
  EXPECT_TRUE(bitwise_equal(expected, weight.grad()));
}

/// The message when `change` runs between forward and backward; `undo` puts the setting back.
std::string message_after(const std::function<void()>& change, const std::function<void()>& undo) {
  const auto x = float_leaf({4});
  const auto y = checkpoint(
                     {.name = "settings"}, [](at::Tensor h) { return h.exp().sin(); }, x)
                     .sum();
  change();
  auto message = message_of<CheckpointError>([&] { y.backward({}, /*retain_graph=*/true); });
  undo();
  EXPECT_TRUE(contains(message, "region \"settings\""));
  EXPECT_NO_THROW(y.backward());  // as it was: works again
  return message;
}

TEST(ProcessGlobals, AChangeIsAnErrorThatNamesTheSetting) {
  auto& context = at::globalContext();
  EXPECT_TRUE(
      contains(message_after([] { torch::set_default_dtype(caffe2::TypeMeta::Make<double>()); },
                             [] { torch::set_default_dtype(caffe2::TypeMeta::Make<float>()); }),
               "default dtype: Float in forward, Double now"));
  EXPECT_TRUE(contains(message_after([&] { context.setDeterministicAlgorithms(true, false); },
                                     [&] { context.setDeterministicAlgorithms(false, false); }),
                       "deterministic algorithms: off in forward, on now"));
  EXPECT_TRUE(contains(
      message_after([&] { context.setSDPUseFlash(false); }, [&] { context.setSDPUseFlash(true); }),
      "flash attention: on in forward, off now"));
  EXPECT_TRUE(contains(
      message_after([&] { context.setSDPUseMath(false); }, [&] { context.setSDPUseMath(true); }),
      "math attention: on in forward, off now"));
  EXPECT_TRUE(contains(message_after([&] { context.setSDPUseMemEfficient(false); },
                                     [&] { context.setSDPUseMemEfficient(true); }),
                       "memory-efficient attention: on in forward, off now"));
  EXPECT_TRUE(contains(message_after([&] { context.setUserEnabledMkldnn(false); },
                                     [&] { context.setUserEnabledMkldnn(true); }),
                       "oneDNN: on in forward, off now"));
  EXPECT_TRUE(contains(message_after([&] { context.setBenchmarkCuDNN(true); },
                                     [&] { context.setBenchmarkCuDNN(false); }),
                       "cuDNN benchmark"));
  context.setFloat32MatmulPrecision("highest");
  EXPECT_TRUE(contains(message_after([&] { context.setFloat32MatmulPrecision("high"); },
                                     [&] { context.setFloat32MatmulPrecision("highest"); }),
                       "matmul float32 precision"));
}

TEST(ProcessGlobals, SeveralChangesAreAllListed) {
  auto& context = at::globalContext();
  const auto message = message_after(
      [&] {
        context.setSDPUseFlash(false);
        context.setDeterministicAlgorithms(true, true);
      },
      [&] {
        context.setSDPUseFlash(true);
        context.setDeterministicAlgorithms(false, false);
      });
  EXPECT_TRUE(contains(message, "flash attention"));
  EXPECT_TRUE(contains(message, "deterministic algorithms: off"));
  EXPECT_TRUE(contains(message, "warn-only"));
}

}  // namespace
}  // namespace reprise::testing
