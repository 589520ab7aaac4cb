// The claims of PyTorch's TestCheckpoint (test/test_utils.py). docs/upstream-tests.md says which
// test is which.
#include "support/bitwise.h"
#include "support/devices.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace reprise::testing {
namespace {

struct ScaleModule : torch::nn::Module {
  explicit ScaleModule(float by) : factor(by) {}
  at::Tensor forward(at::Tensor x) {
    ++calls;
    return x * torch::full({1}, factor);
  }
  float factor;
  size_t calls = 0;
};

TEST(UpstreamCheckpoint, SequentialRecomputesAllSegmentsButTheLast) {
  for (const bool use_reentrant : {false, true}) {
    SCOPED_TRACE(use_reentrant);
    std::vector<std::shared_ptr<ScaleModule>> modules;
    torch::nn::Sequential sequential;
    for (int i = 0; i < 10; ++i) {
      modules.push_back(std::make_shared<ScaleModule>(0.5F + static_cast<float>(i)));
      sequential->push_back(modules.back());
    }
    const auto calls = [&modules] {
      std::vector<size_t> counts;
      for (const auto& module : modules) {
        counts.push_back(module->calls);
      }
      return counts;
    };
    auto x = torch::randn({4}, at::requires_grad());
    auto y = checkpoint_sequential({.use_reentrant = use_reentrant}, sequential, 2, x);
    EXPECT_EQ(calls(), std::vector<size_t>(10, 1));
    y.sum().backward();
    EXPECT_EQ(calls(), (std::vector<size_t>{2, 2, 2, 2, 2, 1, 1, 1, 1, 1}));
  }
}

torch::nn::Sequential small_net() {
  torch::manual_seed(3);
  return torch::nn::Sequential(torch::nn::Linear(100, 50),
                               torch::nn::ReLU(),
                               torch::nn::Linear(50, 20),
                               torch::nn::ReLU(),
                               torch::nn::Linear(20, 5),
                               torch::nn::ReLU());
}

/// Output, input gradient and parameter gradients of `run(x)`.
std::vector<at::Tensor> train_step(const torch::nn::Module& model, const Fn& run) {
  torch::manual_seed(4);
  auto x = torch::randn({3, 100}, at::requires_grad());
  auto y = run(x);
  y.sum().backward();
  std::vector<at::Tensor> results{y, x.grad()};
  for (const auto& parameter : model.parameters()) {
    results.push_back(parameter.grad());
  }
  return results;
}

std::vector<Fn> calls_of(torch::nn::Sequential modules) {
  std::vector<Fn> functions;
  for (auto& child : *modules) {
    functions.emplace_back([child](at::Tensor x) mutable { return child.forward<at::Tensor>(x); });
  }
  return functions;
}

TEST(UpstreamCheckpoint, SequentialGivesPlainOutputAndGradients) {
  auto plain_net = small_net();
  const auto plain = train_step(*plain_net, [&](at::Tensor x) { return plain_net->forward(x); });
  for (const bool use_reentrant : {false, true}) {
    SCOPED_TRACE(use_reentrant);
    const CheckpointOptions options{.use_reentrant = use_reentrant};
    auto as_module = small_net();
    expect_bitwise_equal(plain, train_step(*as_module, [&](at::Tensor x) {
                           return checkpoint_sequential(options, as_module, 2, x);
                         }));
    auto as_list = small_net();
    expect_bitwise_equal(plain, train_step(*as_list, [&](at::Tensor x) {
                           return checkpoint_sequential(options, calls_of(as_list), 2, x);
                         }));
  }
}

// A C++ ModuleList has neither a forward nor typed children, so its user writes down how each child
// is called.
TEST(UpstreamCheckpoint, SequentialOverModuleListGivesPlainOutputAndGradients) {
  auto plain_net = small_net();
  const auto plain = train_step(*plain_net, [&](at::Tensor x) { return plain_net->forward(x); });
  for (const bool use_reentrant : {false, true}) {
    SCOPED_TRACE(use_reentrant);
    auto children = small_net();
    torch::nn::ModuleList list;
    for (const auto& child : *children) {
      list->push_back(child.ptr());
    }
    std::vector<Fn> functions;
    for (const auto& child : *list) {
      functions.emplace_back([child](at::Tensor x) {
        auto* linear = child->as<torch::nn::Linear>();
        return linear != nullptr ? linear->forward(x) : child->as<torch::nn::ReLU>()->forward(x);
      });
    }
    expect_bitwise_equal(plain, train_step(*list, [&](at::Tensor x) {
                           return checkpoint_sequential(
                               {.use_reentrant = use_reentrant}, functions, 2, x);
                         }));
  }
}

TEST(UpstreamCheckpoint, GradWithCreateGraphIsRefusedReentrantAndPlainNonReentrant) {
  torch::manual_seed(5);
  torch::nn::Sequential net(torch::nn::Linear(10, 8),
                            torch::nn::ReLU(),
                            torch::nn::Linear(8, 6),
                            torch::nn::ReLU(),
                            torch::nn::Linear(6, 4));
  auto x = torch::randn({2, 10}, at::requires_grad());
  const auto gradient = [&x](const at::Tensor& y) {
    return torch::autograd::grad(
        {y.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  };
  const auto plain = net->forward(x);
  const auto ours = checkpoint_sequential(net, 2, x);
  EXPECT_TRUE(bitwise_equal(plain, ours));
  EXPECT_TRUE(bitwise_equal(gradient(plain), gradient(ours)));

  const auto reentrant = checkpoint_sequential({.use_reentrant = true}, net, 2, x);
  EXPECT_TRUE(contains(message_of<CheckpointError>([&] { gradient(reentrant); }),
                       "incompatible with torch::autograd::grad()"));
}

void expect_same_dropout(c10::DeviceType device) {
  torch::manual_seed(6);
  const auto x = torch::ones({20000}, torch::TensorOptions(device).requires_grad(true));
  const auto drop = [](at::Tensor h) { return torch::dropout(h, 0.5, /*train=*/true); };
  const auto gradient = [&](uint64_t seed, const Fn& second) {
    torch::manual_seed(seed);
    x.mutable_grad() = at::Tensor();
    second(drop(x)).sum().backward();
    return x.grad();
  };
  for (const bool use_reentrant : {false, true}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const auto plain = gradient(seed, drop);
      const auto ours = gradient(seed, [&](at::Tensor h) {
        return checkpoint({.use_reentrant = use_reentrant}, drop, h);
      });
      EXPECT_TRUE(bitwise_equal(plain, ours)) << "reentrant " << use_reentrant << ", seed " << seed;
    }
  }
}

TEST(UpstreamCheckpoint, DropoutDrawsTheSameMaskOnCpu) {
  expect_same_dropout(c10::kCPU);
}

TEST(UpstreamCheckpoint, DropoutDrawsTheSameMaskOnGpu) {
  REPRISE_REQUIRE_CUDA();
  expect_same_dropout(c10::kCUDA);
}

// Without preservation the recompute draws on: the generator ends two draws after the start, not
// one.
void expect_dropout_without_preservation_runs(c10::DeviceType device) {
  const auto after = [device](bool preserve_rng_state) {
    torch::manual_seed(7);
    auto x = torch::ones({1000}, torch::TensorOptions(device).requires_grad(true));
    auto y = checkpoint(
        {.preserve_rng_state = preserve_rng_state},
        [](at::Tensor h) { return torch::dropout(h, 0.5, true); },
        x);
    y.sum().backward();
    EXPECT_TRUE(x.grad().defined());
    return torch::rand({16}, torch::TensorOptions(device));
  };
  EXPECT_FALSE(torch::equal(after(false), after(true)));
}

TEST(UpstreamCheckpoint, DropoutWithoutRngPreservationRuns) {
  expect_dropout_without_preservation_runs(c10::kCPU);
}

TEST(UpstreamCheckpoint, DropoutWithoutRngPreservationRunsOnGpu) {
  REPRISE_REQUIRE_CUDA();
  expect_dropout_without_preservation_runs(c10::kCUDA);
}

TEST(UpstreamCheckpoint, AbsentOptionalArgumentPassesThrough) {
  auto x = torch::randn({4}, at::requires_grad());
  const auto fn = [](at::Tensor a, std::optional<at::Tensor> b) { return b ? *b : a; };
  for (const bool use_reentrant : {false, true}) {
    x.mutable_grad() = at::Tensor();
    auto y = checkpoint({.use_reentrant = use_reentrant}, fn, x, std::optional<at::Tensor>());
    y.sum().backward();
    EXPECT_TRUE(bitwise_equal(x.grad(), torch::ones({4})));
  }
}

using Mixed = std::
    tuple<int, at::Tensor, std::optional<at::Tensor>, bool, at::Tensor, std::string, at::Tensor>;

Mixed mixed(at::Tensor a, at::Tensor b, int factor, at::Tensor c) {
  return {factor, (a + b * c) * factor, std::nullopt, true, (a * b + c) * factor, "bar", a};
}

void expect_values(const Mixed& result, const Mixed& expected) {
  EXPECT_EQ(std::get<0>(result), std::get<0>(expected));
  EXPECT_FALSE(std::get<2>(result).has_value());
  EXPECT_EQ(std::get<3>(result), std::get<3>(expected));
  EXPECT_EQ(std::get<5>(result), std::get<5>(expected));
  expect_bitwise_equal({std::get<1>(result), std::get<4>(result), std::get<6>(result)},
                       {std::get<1>(expected), std::get<4>(expected), std::get<6>(expected)});
}

TEST(UpstreamCheckpoint, MixedArgumentsAndResultsKeepTheirPlaces) {
  for (const bool use_reentrant : {false, true}) {
    SCOPED_TRACE(use_reentrant);
    torch::manual_seed(8);
    const std::vector<at::Tensor> leaves{torch::rand({10}, at::requires_grad()),
                                         torch::rand({10}, at::requires_grad()),
                                         torch::rand({10}, at::requires_grad())};
    const auto gradients = [&leaves](const Mixed& result) {
      std::get<1>(result).sum().backward({}, /*retain_graph=*/true);
      std::get<4>(result).sum().backward({}, /*retain_graph=*/true);
      // The plain result is the leaf itself; a reentrant region returns a new tensor for it.
      std::get<6>(result).sum().backward();
      std::vector<at::Tensor> grads;
      for (const auto& leaf : leaves) {
        grads.push_back(leaf.grad().clone());
        leaf.mutable_grad() = at::Tensor();
      }
      return grads;
    };
    const auto plain = mixed(leaves[0], leaves[1], 7, leaves[2]);
    const auto ours =
        checkpoint({.use_reentrant = use_reentrant}, mixed, leaves[0], leaves[1], 7, leaves[2]);
    expect_values(ours, plain);
    expect_bitwise_equal(gradients(plain), gradients(ours));
    if (use_reentrant) {
      EXPECT_TRUE(contains(message_of<c10::Error>([&] { std::get<6>(ours).sum().backward(); }),
                           "Trying to backward through the graph a second time"));
    } else {
      std::get<1>(ours).sum().backward();
      EXPECT_TRUE(contains(message_of<c10::Error>([&] { std::get<1>(ours).sum().backward(); }),
                           "Trying to backward through the graph a second time"));
    }
  }
}

TEST(UpstreamCheckpoint, PlainValuesAloneComeBackUnchangedAndAreRefusedReentrant) {
  const auto fn = [](double a, double b, int factor) {
    return std::tuple<int, double, std::optional<int>, bool, double, std::string, double>{
        factor, a + b * factor, std::nullopt, true, a * b, "bar", a};
  };
  EXPECT_EQ(checkpoint(fn, 0.5, 0.25, 3), fn(0.5, 0.25, 3));
  EXPECT_TRUE(contains(
      message_of<CheckpointError>([&] { checkpoint({.use_reentrant = true}, fn, 0.5, 0.25, 3); }),
      "none of the input tensors requires grad"));
}

TEST(UpstreamCheckpoint, ReentrantNeedsOneResultThatRequiresGrad) {
  auto a = torch::randn({2}, at::requires_grad());
  auto b = torch::randn({2});
  const CheckpointOptions options{.use_reentrant = true};
  const auto both = [](at::Tensor x, at::Tensor y) { return std::pair(x, y); };
  checkpoint(options, both, a, b).first.sum().backward();
  EXPECT_TRUE(bitwise_equal(a.grad(), torch::ones({2})));

  auto only_second = checkpoint(
      options, [](at::Tensor, at::Tensor y) { return y * 2; }, a, b);
  const auto message = message_of<CheckpointError>([&] { only_second.sum().backward(); });
  EXPECT_TRUE(contains(message, "none of the outputs"));
  EXPECT_TRUE(contains(message, "not necessary"));
}

/// KiB alive when backward of four chained squares reaches each of the three tensors between them.
/// (Not bytes: malloc rounds the same request now to this, now to that multiple of 16.)
std::vector<int64_t> kibibytes_during_backward(c10::DeviceType device,
                                               bool with_checkpoint,
                                               bool retain_graph) {
  std::vector<int64_t> samples;
  samples.reserve(8);
  const Fn squares = [&samples, device](at::Tensor x) {
    for (int i = 0; i < 3; ++i) {
      x = x.square();
      x.register_hook(
          [&samples, device](const at::Tensor&) { samples.push_back(live_bytes(device) / 1024); });
    }
    return x.square().sum();
  };
  auto x = torch::ones({1 << 16}, torch::TensorOptions(device).requires_grad(true));
  auto y = with_checkpoint ? checkpoint(squares, x) : squares(x);
  y.backward({}, retain_graph);
  return samples;
}

bool falls_strictly(const std::vector<int64_t>& samples) {
  return std::adjacent_find(samples.begin(), samples.end(), std::less_equal<>()) == samples.end();
}

void expect_early_free(c10::DeviceType device) {
  kibibytes_during_backward(device, false, false);  // what LibTorch allocates once and for all
  const auto plain = kibibytes_during_backward(device, false, false);
  ASSERT_EQ(plain.size(), 3U);
  EXPECT_TRUE(falls_strictly(plain));
  const auto retained = kibibytes_during_backward(device, false, true);
  EXPECT_EQ(retained, std::vector<int64_t>(3, retained.front()));
  EXPECT_EQ(kibibytes_during_backward(device, true, false), plain);
  EXPECT_EQ(kibibytes_during_backward(device, true, true), plain);
}

TEST(UpstreamCheckpoint, RecomputedTensorsAreFreedAsBackwardProceeds) {
  expect_early_free(c10::kCPU);
}

TEST(UpstreamCheckpoint, RecomputedTensorsAreFreedAsBackwardProceedsOnGpu) {
  REPRISE_REQUIRE_CUDA();
  expect_early_free(c10::kCUDA);
}

// Ours records every default generator, so that containers need not be searched.
TEST(UpstreamCheckpoint, RandomStateOfEveryDeviceInNestedContainersIsRestored) {
  using Nested = std::map<std::string, std::vector<at::Tensor>>;
  std::vector<at::Tensor> leaves{torch::ones({1000}, at::requires_grad())};
  for (int i = 0; has_cuda() && i < at::detail::getCUDAHooks().deviceCount(); ++i) {
    const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(i));
    leaves.push_back(torch::ones({1000}, at::requires_grad().device(device)));
  }
  const auto drop_all = [](Nested values) {
    auto sum = torch::zeros({});
    for (auto& [name, list] : values) {
      for (auto& tensor : list) {
        sum = sum + torch::dropout(tensor, 0.5, true).square().sum().to(c10::kCPU);
      }
    }
    return sum;
  };
  const auto gradients = [&](const std::function<at::Tensor(Nested)>& run) {
    torch::manual_seed(9);
    const Nested values{{"first", {leaves.front()}}, {"rest", {leaves.begin() + 1, leaves.end()}}};
    return torch::autograd::grad({run(values)}, leaves);
  };
  expect_bitwise_equal(gradients(drop_all), gradients([&](Nested values) {
                         return checkpoint(drop_all, std::move(values));
                       }));
}

}  // namespace
}  // namespace reprise::testing
